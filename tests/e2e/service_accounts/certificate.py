"""Makes an authority and a certificate for 127.0.0.1 in the given folder."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from strict.certificates import Authority  # noqa: E402

Authority("issuer", pathlib.Path(sys.argv[1])).server()
