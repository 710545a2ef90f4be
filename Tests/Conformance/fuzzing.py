"""The fuzzing half of a run: the Autobahn test suite's server or client. For Python 2.7; `run.py` starts it.

usage: fuzzing.py server SPEC [KEY CERTIFICATE]   listens on a free port of 127.0.0.1, which it prints
       fuzzing.py client SPEC                     meets the server that the spec names

It ends with its standard input, so that nothing outlives whoever started it. The suite's own `wstest` has no
such end, wants a fixed port, and listens on all interfaces.
"""
import json
import os
import socket
import sys
import threading

from autobahntestsuite import fuzzing
from twisted.internet import reactor, ssl
from twisted.protocols.tls import TLSMemoryBIOFactory


def exit_with_input():
    while os.read(0, 1024):
        pass
    os._exit(0)


def listen(spec, files):
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.bind(("127.0.0.1", 0))
    listening.listen(64)
    listening.setblocking(False)
    port = listening.getsockname()[1]
    # The suite compares each request's Host field with the port of its URL.
    spec["url"] = "%s://127.0.0.1:%d" % ("wss" if files else "ws", port)
    factory = fuzzing.FuzzingServerFactory(spec)
    if files:
        factory = TLSMemoryBIOFactory(ssl.DefaultOpenSSLContextFactory(*files), False, factory)
    reactor.adoptStreamPort(listening.fileno(), socket.AF_INET, factory)
    return port


def main(role, path, *files):
    watcher = threading.Thread(target=exit_with_input)
    watcher.daemon = True
    watcher.start()
    output = sys.stdout
    # What the suite prints is for its log.
    sys.stdout = sys.stderr
    with open(path) as text:
        spec = json.load(text)
    if role == "server":
        output.write("%d\n" % listen(spec, files))
        output.flush()
    else:
        fuzzing.startClient(spec)
    reactor.run()


main(*sys.argv[1:])
