"""Sign-in tokens made by PyJWT, with every algorithm that the app supports (B1)."""

import base64
import json
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from app import call

ISSUER, AUDIENCE = "https://shop.example", "stampede"
KEY_GENERATORS = {
    "RS256": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


def claims(**changes):
    """Returns valid claims of a user for an hour, with changes. None removes a claim."""
    now = int(time.time())
    valid = {"sub": "ada", "iss": ISSUER, "aud": AUDIENCE, "exp": now + 3600, "level": 3, "member": True}
    return {name: value for name, value in {**valid, **changes}.items() if value is not None}


def unsigned(body):
    """Returns a token with the algorithm `none`."""
    return jwt.encode(body, None, algorithm="none")


def signed_with_the_public_key(body, public):
    """Returns an HS256 token with the public key as its secret. Built by hand, because PyJWT refuses to."""
    import hashlib
    import hmac

    part = lambda data: base64.urlsafe_b64encode(json.dumps(data).encode()).rstrip(b"=")
    text = part({"alg": "HS256", "typ": "JWT"}) + b"." + part(body)
    signature = hmac.new(public, text, hashlib.sha256).digest()
    return (text + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()


class Tokens(unittest.TestCase):
    """Runs an app for each algorithm, with a new key."""

    def test_every_algorithm_is_accepted_and_pinned(self):
        """Configures each algorithm in turn, with the key as PEM and as JWK."""
        for algorithm, generate in KEY_GENERATORS.items():
            key = generate()
            private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
            public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
            jwk = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key())
            for kind, text in (("PEM", public), ("JWK", jwk)):
                with self.subTest(algorithm=algorithm, key=kind):
                    variables = {"jwt_algorithm": algorithm, "jwt_key": text, "jwt_issuer": ISSUER,
                                 "jwt_audience": AUDIENCE}
                    self.check_with_app(variables, algorithm, private, public)

    def test_a_shared_secret_is_accepted(self):
        """The default: HS256."""
        secret = base64.urlsafe_b64encode(os.urandom(32)).decode()
        variables = {"jwt_algorithm": "HS256", "jwt_key": secret, "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
        self.check_with_app(variables, "HS256", secret, "")

    def check_with_app(self, variables, *arguments):
        """Runs `check_tokens` in a new process with a new app."""
        flags = [part for name, value in variables.items() for part in ("--variable", f"{name}={value}")]
        programs = Path(os.environ.get("CARGO_TARGET_DIR", "../../target")) / "release"
        command = [programs / "with-app", *flags, sys.executable, __file__, *arguments]
        result = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)


def check_tokens(algorithm, private, public):
    """Requests the user's orders from the running app, with valid and invalid tokens: the token alone decides."""
    now = int(time.time())
    sign = lambda **changes: jwt.encode(claims(**changes), private, algorithm=algorithm)
    other_key = KEY_GENERATORS[algorithm]() if algorithm in KEY_GENERATORS else "another secret, " * 4
    valid = {
        "as it should be": sign(),
        "a clock that is half a minute off": sign(exp=now - 30),
        "one audience of several": sign(aud=["another shop", AUDIENCE]),
    }
    invalid = {
        "no signature at all": unsigned(claims()),
        "HS256 with the public key, or with nothing": signed_with_the_public_key(claims(), public.encode()),
        "HS256 with a secret": jwt.encode(claims(), "s" * 64, algorithm="HS256"),
        "another key": jwt.encode(claims(), other_key, algorithm=algorithm),
        "another algorithm": jwt.encode(
            claims(), KEY_GENERATORS["ES256" if algorithm != "ES256" else "EdDSA"](),
            algorithm="ES256" if algorithm != "ES256" else "EdDSA"),
        "no expiry": sign(exp=None),
        "expired": sign(exp=now - 90),
        "not yet": sign(nbf=now + 90),
        "another issuer": sign(iss="https://evil.example"),
        "another audience": sign(aud="another shop"),
        "no user": sign(sub=None),
    }
    for case, token in valid.items():
        assert call("GET", "/api/orders", token=token)[0] == 200, case
    for case, token in invalid.items():
        status, document = call("GET", "/api/orders", token=token)
        assert (status, document["code"]) == (401, "unauthenticated"), (case, status, document)


if __name__ == "__main__":
    check_tokens(*sys.argv[1:])
