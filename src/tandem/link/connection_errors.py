"""What can go wrong between an actor and a hub, in words that say what to do."""

from __future__ import annotations

import ssl
from pathlib import Path

from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus, InvalidURI

from tandem.errors import (
    ConfigError,
    HubBusy,
    HubUnreachable,
    LinkError,
    LinkSpecMismatch,
    OtherRun,
    OtherTask,
    ProtocolMismatch,
    TandemError,
    UntrustedCertificate,
    WrongToken,
)
from tandem.link.fields import BadFrame
from tandem.link.messages import Refused

_REFUSALS: dict[str, type[LinkError]] = {
    "protocol": ProtocolMismatch,
    "task": OtherTask,
    "spec": LinkSpecMismatch,
    "run": OtherRun,
    "busy": HubBusy,
    "storage": HubBusy,
    "source": WrongToken,
}


def refusal_error(refused: Refused) -> LinkError:
    """The hub's refusal as an error."""
    return _REFUSALS[refused.code](refused.message)


def no_answer(uri: str, timeout: float, latest: Exception | None) -> HubUnreachable:
    return HubUnreachable(
        f"no hub at {uri} within {timeout:g} s ({latest or 'no answer'}). "
        "Is `tandem learner` running there, is the address right, does a firewall stand between?"
    )


def connection_error(problem: Exception, uri: str) -> Exception:
    """The error that a person reads, for any failure of a connection."""
    if isinstance(problem, TandemError):
        return problem
    if isinstance(problem, InvalidStatus):
        return _http_error(problem.response.status_code, uri)
    if isinstance(problem, BadFrame):
        return ProtocolMismatch(
            f"the hub at {uri} sent something this actor does not understand: {problem}. Use the same version of Tandem."
        )
    if isinstance(problem, (InvalidHandshake, InvalidURI)) and not isinstance(problem, InvalidMessage):
        return ProtocolMismatch(f"{uri} is no Tandem hub: {problem}.")
    if isinstance(problem, ssl.SSLCertVerificationError):
        return UntrustedCertificate(
            f"the certificate of {uri} cannot be trusted: {problem.verify_message}. Give the hub's certificate with --ca."
        )
    return HubUnreachable(f"{uri}: {str(problem) or type(problem).__name__}")


def _http_error(status: int, uri: str) -> LinkError:
    if status == 401:
        return WrongToken(
            f"the hub at {uri} does not accept this token: it is wrong, or was revoked. Give the one in the file 'token' of its run "
            "folder, or one made by `tandem access RUN add NAME --role actor` (by --token-file or the environment variable TANDEM_TOKEN)."
        )
    if status == 403:
        return WrongToken(
            f"the hub at {uri} knows this token, but it is not one of an actor. Make one with `tandem access RUN add NAME --role actor`."
        )
    if status == 421:
        return HubUnreachable(f"the hub at {uri} does not answer under this name. Start it with --host-name NAME, or use its address.")
    if status == 503:
        return HubUnreachable(f"the hub at {uri} is overloaded (HTTP 503)")
    return ProtocolMismatch(f"{uri} answered with HTTP {status}: no Tandem hub, or one of another version.")


def hub_uri(address: str, ca: Path | None) -> tuple[str, ssl.SSLContext | None]:
    """The WebSocket address of a hub, and the TLS settings; None without TLS."""
    scheme, _, rest = address.rpartition("://")
    if scheme not in ("", "ws", "wss", "http", "https") or not rest.strip("/"):
        raise ConfigError(f"'{address}' is not the address of a hub; give HOST:PORT, or wss://HOST:PORT for TLS.")
    secure = ca is not None or scheme in ("wss", "https")
    uri = f"{'wss' if secure else 'ws'}://{rest.rstrip('/')}/link"
    if not secure:
        return uri, None
    if ca is not None and not ca.exists():
        raise ConfigError(f"there is no certificate {ca}")
    return uri, ssl.create_default_context(cafile=None if ca is None else str(ca))


def checked_token(token: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError("the token is empty or has characters that no token has; give the content of the run's file 'token'.")
    return token
