"""A Dask scheduler that is there already: `--cluster tcp://…` or `tls://…`. See docs/clusters.md."""

import contextlib
import queue
import threading
import warnings
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from distributed import Client, Security
from distributed.versions import VersionMismatchWarning

from recurra.studies.order import Failure, Order, Outcome
from recurra.studies.places.base import Compute, PlaceError, Tls, one_line
from recurra.studies.places.checking import described, refusal, versions
from recurra.studies.places.hands import DaskHands, each_on
from recurra.studies.places.quiet import quiet

#: seconds that workers have to say which versions they have: they import JAX for it
ANSWER = 120.0
#: seconds in which a connection is closed properly
CLOSE = 2.0


class Cluster:
    """The workers of a scheduler that somebody has started."""

    def __init__(self, address: str, tls: Tls | None = None, *, timeout: float = 5.0) -> None:
        self.address, self._security, self._timeout = address, security_of(address, tls), timeout

    def __enter__(self) -> "Cluster":
        with contextlib.ExitStack() as closing:
            closing.enter_context(quiet())
            client = closing.enter_context(connected(self.address, self._security, self._timeout))
            self._hands = DaskHands(client, self.address, f"Start some: dask worker {self.address} --nthreads 1")
            self._hands.wait()
            self._hands.accelerated |= _accelerated(client)
            self._closing = closing.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def workers(self) -> int:
        return max(len(self._hands.present()), 1)

    def each(self, compute: Compute, orders: Iterable[Order]) -> Iterator[tuple[Order, Outcome | Failure]]:
        return each_on(self._hands, compute, orders)


def security_of(address: str, tls: Tls | None) -> Security | None:
    """What Dask needs to reach an address; a `PlaceError` if it is none, or does not go with the files given."""
    try:
        parts = urlsplit(address)
        is_complete = bool(parts.hostname and parts.port)
    except ValueError:
        parts, is_complete = urlsplit(""), False
    if parts.scheme not in ("tcp", "tls") or not is_complete:
        raise PlaceError(
            f"{address} is not the address of a Dask scheduler: write tcp://HOST:PORT, or tls://HOST:PORT for one that"
            " uses TLS. `dask scheduler` says which it is when it starts."
        )
    if parts.scheme == "tls" and tls is None:
        raise PlaceError(f"{address} is reached with certificates: name a CA file, a certificate and a key.")
    if parts.scheme == "tcp" and tls is not None:
        raise PlaceError(f"There are certificates, and {address} does not use them: write tls:// instead of tcp://.")
    return None if tls is None else secured(tls)


def secured(tls: Tls) -> Security:
    """The same certificate for this process and, where it starts them, for scheduler and workers."""
    for path in (tls.ca_file, tls.cert, tls.key):
        try:
            path.open("rb").close()
        except OSError as error:
            raise PlaceError(f"{path} cannot be read ({error.strerror}): TLS needs it.") from None
    roles = {
        f"tls_{role}_{part}": str(getattr(tls, part))
        for role in ("client", "scheduler", "worker")
        for part in ("cert", "key")
    }
    security = Security(require_encryption=True, tls_ca_file=str(tls.ca_file), **roles)
    try:
        security.get_connection_args("client")
    except OSError as error:
        raise PlaceError(f"The TLS files do not work: {one_line(error)}. They must be in PEM format.") from None
    return security


@contextlib.contextmanager
def connected(address: Any, security: Security | None, timeout: float) -> Iterator[Client]:
    """A client of a scheduler, by its address or as Dask's cluster."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VersionMismatchWarning)  # what matters is checked, and named, by us
        try:
            client = Client(address, security=security, timeout=timeout, set_as_default=False)
        except (OSError, ValueError, TypeError, ImportError) as error:
            raise PlaceError(
                f"No Dask scheduler answers at {address} ({one_line(error)}). Is it running, and can this machine reach"
                " it? One is started with `dask scheduler`."
            ) from None
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):  # a scheduler that is gone is no reason to fail once more
            client.close(timeout=CLOSE)


def _accelerated(client: Client) -> dict[str, bool]:
    """Whether each worker has an accelerator; a `PlaceError` if one has other versions."""
    answers = _within(ANSWER, lambda: client.run(described, on_error="return"))
    wrong = []
    for worker, answer in answers.items():
        if isinstance(answer, ImportError):
            wrong.append(f"worker {worker} has no recurra that works ({one_line(answer)}): install the same there")
        elif not isinstance(answer, Exception) and (refused := refusal(versions(), answer["versions"], worker)):
            wrong.append(refused)
    if wrong:
        raise PlaceError("\n".join([f"{len(wrong)} of {len(answers)} workers cannot compute this study:", *wrong]))
    return {worker: answer["accelerated"] for worker, answer in answers.items() if isinstance(answer, dict)}


def _within(seconds: float, ask: Any) -> dict[str, Any]:
    """What a question to all workers brings; nothing if one of them keeps silent."""
    answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def fetch() -> None:
        with contextlib.suppress(Exception):  # a scheduler that is lost meanwhile is found later
            answers.put(ask())

    threading.Thread(target=fetch, daemon=True).start()
    try:
        return answers.get(timeout=seconds)
    except queue.Empty:
        return {}
