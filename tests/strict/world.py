"""The stand-ins' configured state, and what happened since."""

import copy
import hashlib
import secrets
import threading
import time


class World:
    """One lock around everything: the load is small, and a state is never seen half changed."""

    def __init__(self, state):
        self.lock = threading.RLock()
        self._state = {}
        self._calls = []
        self._faults = []
        self._secrets = {}
        self.sessions = {}
        self.bearers = {}
        self.addresses = {}
        self.keys = {}
        self.replace(state)

    @property
    def state(self):
        with self.lock:
            return self._state

    def replace(self, state):
        from strict.check import check_state

        state = copy.deepcopy(state)
        check_state(state)
        with self.lock:
            self._state = state
            self._faults = copy.deepcopy(state.get("faults", []))
            self.keys.clear()

    def merge(self, changes):
        merged = copy.deepcopy(self.state)
        merged.update(changes)
        self.replace(merged)

    def record(self, **call):
        with self.lock:
            self._calls.append({"at": time.time(), **call})

    def calls(self):
        with self.lock:
            return list(self._calls)

    def forget_calls(self):
        with self.lock:
            self._calls.clear()

    def fault(self, service):
        """The next fault for `service`, if any."""
        with self.lock:
            for fault in self._faults:
                if fault["service"] == service and fault.get("times", 1) > 0:
                    fault["times"] = fault.get("times", 1) - 1
                    return fault
        return None

    def secret(self, kind, length=32):
        """A new secret. All of them are listed, so that a test can check that they appear nowhere else."""
        made = f"{kind}{secrets.token_urlsafe(length)}"
        with self.lock:
            self._secrets[made] = kind
        return made

    def secrets(self):
        with self.lock:
            return list(self._secrets)

    def give_bearer(self, kind, prefix, seconds, **facts):
        bearer = self.secret(prefix, 48)
        with self.lock:
            self.bearers[bearer] = {"kind": kind, "ends_at": time.time() + seconds, **facts}
        return bearer

    def bearer(self, kind, text):
        """The facts of a bearer token of that kind, unless it has expired."""
        with self.lock:
            known = self.bearers.get(text)
        if known is None or known["kind"] != kind or known["ends_at"] <= time.time():
            return None
        return known


def digest(text):
    """Names a token in a record without showing it."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
