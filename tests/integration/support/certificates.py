"""Certificates made with openssl: authorities, certificates that they sign, and clients that trust
them."""

import math
import os
import pathlib
import shutil
import ssl
import subprocess
import time


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=60)


class Authority:
    """An authority in a folder of its own; the files of the certificates that it signs are in the
    same folder."""

    def __init__(self, folder, name="authority"):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.certificate, self.key = (
            self.folder / f"{name}.pem",
            self.folder / f"{name}.key",
        )
        self.signed = 0
        openssl(
            *(
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
            ),
            *("-nodes", "-days", 2, "-subj", f"/CN={name}"),
            *("-addext", "keyUsage=keyCertSign,digitalSignature"),
            *("-keyout", self.key, "-out", self.certificate),
        )

    def sign(
        self,
        name,
        purpose="serverAuth",
        days=2,
        names="DNS:localhost,IP:127.0.0.1",
        subject="",
        kind=("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        more="",
    ):
        """Sign a certificate for these names, or for a client; returns certificate and key.
        Serial numbers count up. With 0 days the certificate expires within a second. subject:
        further parts of the subject; kind: the type of the key, as options of `openssl req`;
        more: further lines of extensions."""
        self.signed += 1
        key, request, certificate = (self.folder / f"{name}.{end}" for end in ("key", "csr", "pem"))
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(
            f"subjectAltName={names}\nextendedKeyUsage={purpose}\n"
            f"subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n{more}\n"
        )
        openssl(
            *("req", "-new", "-newkey", *kind),
            *("-nodes", "-subj", f"{subject}/CN={name}", "-keyout", key, "-out", request),
        )
        openssl(
            *(
                "x509",
                "-req",
                "-in",
                request,
                "-CA",
                self.certificate,
                "-CAkey",
                self.key,
            ),
            *("-set_serial", self.signed, "-days", days, "-extfile", extensions),
            *("-out", certificate),
        )
        return certificate, key


def between(authority, name):
    """An intermediate Authority, signed by `authority`."""
    made = Authority.__new__(Authority)
    made.folder, made.signed = authority.folder, 0
    more = "basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign"
    made.certificate, made.key = authority.sign(name, "clientAuth", names="DNS:x", more=more)
    return made


def costly_key(folder, name, primes, exponent="long", pss=False):
    """A self-signed certificate and an RSA key with these primes. By default the private
    exponent is short, and therefore the public exponent is as long as the modulus: signing is
    fast and verifying is slow. exponent: the public exponent, or "long" for this default. pss:
    make a key for RSA-PSS only."""
    p, q = sorted(primes, reverse=True)
    period = math.lcm(p - 1, q - 1)
    other = 65537 if exponent == "long" else exponent
    e, d = other, pow(other, -1, period)
    if exponent == "long":
        e, d = d, e
    numbers = (0, p * q, e, d, p, q, d % (p - 1), d % (q - 1), pow(q, -1, p))
    rows = "\n".join(f"n{i}=INTEGER:{number:#x}" for i, number in enumerate(numbers))
    ends = ("asn1", "der", "key", "pem")
    layout, der, key, certificate = (pathlib.Path(folder) / f"{name}.{end}" for end in ends)
    layout.write_text(f"asn1=SEQUENCE:key\n[key]\n{rows}\n")
    openssl("asn1parse", "-genconf", layout, "-noout", "-out", der)
    if pss:
        number = der.read_bytes().hex()
        layout.write_text(
            "asn1=SEQUENCE:key\n[key]\nversion=INTEGER:0\nkind=SEQUENCE:kind\n"
            f"key=FORMAT:HEX,OCTETSTRING:{number}\n[kind]\nkind=OID:rsassaPss\n"
        )
        openssl("asn1parse", "-genconf", layout, "-noout", "-out", der)
    openssl("pkey", "-inform", "DER", "-in", der, "-out", key)
    openssl("req", "-x509", "-key", key, "-subj", f"/CN={name}", "-days", 2, "-out", certificate)
    return certificate, key


def put(source, target):
    """Replace a file as a certificate manager does: atomically, with the same permissions."""
    fresh = pathlib.Path(f"{target}.new")
    fresh.write_bytes(pathlib.Path(source).read_bytes())
    shutil.copymode(source, fresh)
    os.replace(fresh, target)


class Tls:
    """The certificates of a server, and contexts for clients that trust its authority."""

    def __init__(self, folder, clients=None):
        """clients: the Authority of client certificates, which the server then requires."""
        self.authority = Authority(pathlib.Path(folder) / "authority")
        self.certificate = pathlib.Path(folder) / "server.pem"
        self.key = pathlib.Path(folder) / "server.key"
        self.flags = ["--tls-cert", str(self.certificate), "--tls-key", str(self.key)]
        if clients is not None:
            self.flags += ["--tls-client-ca", str(clients.certificate)]
        self.own = clients.sign("friend", "clientAuth") if clients else None
        self.rotate()
        self.shared = self.context(self.own)

    def rotate(self):
        """Install a new certificate and key; returns the serial number."""
        certificate, key = self.authority.sign(f"server-{self.authority.signed + 1}")
        begun = time.monotonic()
        put(certificate, self.certificate)
        put(key, self.key)
        self.apart_s = time.monotonic() - begun
        return self.authority.signed

    def context(self, own=None):
        """own: certificate and key of the client."""
        context = ssl.create_default_context(cafile=self.authority.certificate)
        if own is not None:
            context.load_cert_chain(*own)
        return context
