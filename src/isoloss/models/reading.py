"""Reading what `transformers` wrote or a hub holds: quietly, with a sentence for each way it can fail."""

import pickle
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlparse
from urllib.request import getproxies

from huggingface_hub import constants
from safetensors import SafetensorError
from transformers import AutoConfig
from transformers.utils import logging

from isoloss.errors import BadInput, IsolossError

_FAILURES = (
    OSError,
    ValueError,
    RuntimeError,
    KeyError,
    ImportError,
    SafetensorError,
    pickle.UnpicklingError,
)


@contextmanager
def refusing(what: str, name: str) -> Iterator[None]:
    """Turn the many ways in which reading `what` from `name` fails into BadInput, a sentence."""
    try:
        yield
    except IsolossError:
        raise
    except _FAILURES as error:
        if "trust_remote_code" in str(error):
            raise BadInput(
                f"{name} comes with code of its own, which isoloss does not run; convert it to a model that "
                "transformers knows"
            ) from error
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        if isinstance(error, pickle.UnpicklingError):
            reason = "its .bin file is damaged, or holds more than weights, which torch does not unpickle"
            mended = "save it again with save_pretrained, which writes safetensors"
        elif isinstance(error, SafetensorError):
            reason, mended = f"a file of weights is damaged ({reason})", "fetch or copy the folder again"
        elif isinstance(error, FileNotFoundError):
            mended = "fetch or copy that file too"
        else:
            mended = "give a folder that holds one, or a hub's name where the hub can be reached"
        raise BadInput(f"no {what} can be read from {name}: {reason}; {mended}") from error


def refuse_unreachable_hub(name: str) -> None:
    """Say at once what would otherwise be said after many tries, unless the model was fetched before."""
    try:
        with quiet():
            AutoConfig.from_pretrained(name, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError):
        if not hub_is_reachable():
            raise BadInput(
                f"there is no folder {name}, and the hub cannot be reached to look for it there; check the "
                "name, or fetch the model on a machine with a network and name its folder"
            ) from None


def hub_is_reachable() -> bool:
    """Whether the hub's address is known here, or to a proxy, which then knows where the hub is."""
    if getproxies():
        return True
    try:
        socket.getaddrinfo(urlparse(constants.ENDPOINT).hostname, 443)
    except OSError:
        return False
    return True


@contextmanager
def quiet() -> Iterator[None]:
    """Without the bars and warnings that `transformers` prints while it loads."""
    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
