"""The stand-ins' own certificate authority, new at each start; and client certificates."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE = datetime.timedelta(days=2)


class Authority:
    """Signs a certificate for 127.0.0.1 and localhost; writes everything below `folder`."""

    def __init__(self, name, folder):
        self.folder, self.name = folder, name
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self.sign(f"{name} authority", self.key.public_key(), None)
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM).decode()
        self.ca_file = folder / f"{name}-ca.pem"
        self.ca_file.write_text(self.pem)

    def sign(self, common_name, public_key, usage):
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        issuer = subject if usage is None else self.certificate.subject
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + LIFE)
            .add_extension(x509.BasicConstraints(ca=usage is None, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .add_extension(key_usage(usage is None), critical=True)
        )
        if usage is not None:
            names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def server(self):
        """Files of a server's certificate and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self.sign(self.name, key.public_key(), ExtendedKeyUsageOID.SERVER_AUTH)
        files = (self.folder / f"{self.name}.pem", self.folder / f"{self.name}.key")
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files[1].touch(mode=0o600)
        files[1].write_bytes(key_pem(key))
        return files


def for_user(authority_pem, authority_key_pem, user, group):
    """A client certificate and its key, signed by the given authority: with which a user authenticates to an API server."""
    authority = x509.load_pem_x509_certificate(authority_pem)
    authority_key = serialization.load_pem_private_key(authority_key_pem, None)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [(NameOID.ORGANIZATION_NAME, group), (NameOID.COMMON_NAME, user)]
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(*name) for name in names]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key_pem(key)


def key_pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def key_usage(authority):
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
