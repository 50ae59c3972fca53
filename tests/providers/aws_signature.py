"""Whether a request to AWS is signed as AWS wants it."""
import hashlib
import hmac
import re

ACCESS, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


def signature_problem(headers, body, service, method="POST", path="/"):
    """What is wrong with the request's signature, by AWS's own description of how one is made."""
    found = re.match(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d+)/([^/]+)/([^/]+)/aws4_request, *SignedHeaders=([^,]+), "
                     r"*Signature=(\w+)",
                     headers.get("Authorization", ""))
    if not found:
        return "MissingAuthenticationToken"
    access, day, region, of_service, signed, signature = found.groups()
    if access != ACCESS or of_service != service:
        return "UnrecognizedClientException"
    # AWS wants its own headers to be signed, all that are there.
    if not {"host", *(name.lower() for name in headers if name.lower().startswith("x-amz-"))} <= set(signed.split(";")):
        return "IncompleteSignature"
    if missing := [name for name in signed.split(";") if name not in headers]:
        return f"SignedButNotSent.{missing[0]}"
    canonical = "\n".join([method, path, "", *(f"{name}:{headers[name].strip()}" for name in signed.split(";")), "",
                           signed,
                           hashlib.sha256(body).hexdigest()])
    to_sign = "\n".join(["AWS4-HMAC-SHA256", headers["X-Amz-Date"], f"{day}/{region}/{service}/aws4_request",
                         hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + SECRET).encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    expected = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    return None if hmac.compare_digest(expected, signature) else "InvalidSignatureException"
