"""Runs the Autobahn test suite against our WebSocket, as a client and as a server; README.md tells more.

`.ci/autobahn` installs the suite and starts this. Exit status: 0 all is as expected, 1 it isn't.
"""
import argparse
import concurrent.futures
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent
AGENT = "websocket-echo"

# How many cases each section of the suite's version 25.10.1 has; there is no 8 and no 11.
SECTIONS = {1: 16, 2: 11, 3: 7, 4: 10, 5: 20, 6: 145, 7: 37, 9: 54, 10: 1, 12: 90, 13: 126}
BASIC = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*"]
BASIC_COUNT = sum(count for section, count in SECTIONS.items() if section <= 10)
# permessage-deflate, in parts, since one process of the suite uses one core.
DEFLATE = [[f"12.{part}.*"] for part in range(1, 6)] + [[f"13.{part}.*"] for part in range(1, 8)]
OVER_TLS = ["1.*", "2.*", "5.*", "7.*", "9.1.1"]
OVER_TLS_COUNT = 85

# Seconds until a job is given up: many times what the longest takes.
JOB_LIMIT = 1800

# Some cases in one role over one scheme: a process of the suite's and one of ours.
Job = namedtuple("Job", "role scheme cases name")


def jobs_of(quick):
    """The long ones first, so that no core is idle while another has long to go."""
    parts = ([] if quick else DEFLATE) + [BASIC]
    jobs = [
        Job(role, "ws", cases, f"{role}-ws-{cases[0].rstrip('.*')}") for cases in parts for role in ("client", "server")
    ]
    return jobs + [Job(role, "wss", OVER_TLS, f"{role}-wss") for role in ("client", "server")]


class Children:
    """The processes that are running. None is started any more once `end` was called."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = set()
        self.is_ending = False

    def start(self, command, log):
        with self.lock:
            if self.is_ending:
                raise RuntimeError("the run is being ended")
            # In a session of its own, since Ctrl-C is for this script, which then ends the others.
            child = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                text=True, start_new_session=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
            self.running.add(child)
            return child

    def stop(self, child):
        """Servers end with their standard input, and so does the suite's client."""
        child.stdin.close()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()
        with self.lock:
            self.running.discard(child)

    def end(self):
        with self.lock:
            self.is_ending = True
            for child in self.running:
                child.kill()


class Run:
    def __init__(self, python2, echo, directory):
        self.python2, self.echo, self.directory = python2, echo, directory
        self.children = Children()
        subprocess.run([echo, "certificates", "--directory", directory], check=True)

    def perform(self, job):
        """Returns the suite's report on each case that was run."""
        reports = self.directory / job.name
        reports.mkdir()
        log_path = reports / "log.txt"
        with open(log_path, "w") as log:
            status = (self.test_client if job.role == "client" else self.test_server)(job, reports, log)
        index = reports / "index.json"
        if not (status == 0 and index.exists()) and not self.children.is_ending:
            said = log_path.read_text(errors="replace").splitlines()[-1:]
            print(f"{job.name}: exit status {status}: {''.join(said)}", file=sys.stderr)
        if not index.exists():
            return {}
        return {
            case: json.loads((reports / result["reportfile"]).read_text())
            for case, result in json.loads(index.read_text())[AGENT].items()
        }

    def test_client(self, job, reports, log):
        is_tls = job.scheme == "wss"
        spec = self.write_spec(job, reports, {})
        identity = [self.directory / "server.key", self.directory / "server.crt"] if is_tls else []
        trust = ["--ca", self.directory / "ca.crt"] if is_tls else []
        return self.meet(
            [self.python2, HERE / "fuzzing.py", "server", spec, *identity],
            lambda port: [self.echo, "client", "--deflate", "--agent", AGENT, "--port", port, *trust], log)

    def test_server(self, job, reports, log):
        def client(port):
            url = f"{job.scheme}://127.0.0.1:{port}"
            spec = self.write_spec(job, reports, {"servers": [{"agent": AGENT, "url": url}]})
            return [self.python2, HERE / "fuzzing.py", "client", spec]

        identity = ["--certificate", self.directory / "server.crt", "--key", self.directory / "server.key"]
        return self.meet(
            [self.echo, "server", "--deflate", *(identity if job.scheme == "wss" else [])], client, log)

    def write_spec(self, job, reports, more):
        path = reports / "spec.json"
        spec = {"outdir": str(reports), "cases": job.cases, "exclude-cases": [], "exclude-agent-cases": {}}
        path.write_text(json.dumps({**spec, **more}))
        return path

    def meet(self, server_command, client_command, log):
        """Runs a server, which prints its port, and then a client of it; returns how the client ended."""
        server = self.children.start(server_command, log)
        try:
            port = server.stdout.readline().strip()
            if not port:
                return "none, since the server didn't start"
            client = self.children.start(client_command(port), log)
            try:
                return client.wait(JOB_LIMIT)
            except subprocess.TimeoutExpired:
                return f"none within {JOB_LIMIT} s"
            finally:
                self.children.stop(client)
        finally:
            self.children.stop(server)


def verdict(result):
    """The worse of what the suite says of the messages and of the closing."""
    behaviours = {result["behavior"], result["behaviorClose"]}
    for grade in ("OK", "NON-STRICT", "INFORMATIONAL"):
        if behaviours <= {"OK", grade}:
            return grade
    return "FAILED"


def tell(role, scheme, results, count):
    """Prints the outcome of a role over a scheme; returns whether it is as expected."""
    verdicts = {case: verdict(result) for case, result in results.items()}
    tally = {grade: list(verdicts.values()).count(grade) for grade in ("OK", "NON-STRICT", "INFORMATIONAL")}
    # A case that wasn't run has failed too.
    print(f"{role} {scheme}: {tally['OK']} of {count} OK, {tally['NON-STRICT']} NON-STRICT, "
          f"{tally['INFORMATIONAL']} INFORMATIONAL, {count - sum(tally.values())} FAILED")
    expected = expected_informational()
    unexpected = [
        case for case, grade in verdicts.items()
        if grade != "OK" and not (grade == "INFORMATIONAL" and case in expected)
    ]
    for case in sorted(unexpected, key=lambda case: [int(number) for number in case.split(".")]):
        result = results[case]
        print(f"  {case}: {result['behavior']}: {result['result']} "
              f"Closing {result['behaviorClose']}: {result['resultClose']}")
    if len(results) != count:
        print(f"  {count - len(results)} cases were not run")
    return not unexpected and len(results) == count


def expected_informational():
    """The cases in the README's table of them."""
    return set(re.findall(r"^\| (\d+\.\d+\.\d+) \|", (HERE / "README.md").read_text(), re.MULTILINE))


def print_sections(outcomes):
    """How many cases of each section were OK, as a table for the README."""
    print("\n| section | " + " | ".join(f"{role} {scheme}" for role, scheme in outcomes) + " |")
    print("|---:|" + "---:|" * len(outcomes))
    for section in SECTIONS:
        cells = []
        for results in outcomes.values():
            grades = [verdict(result) for case, result in results.items() if case.startswith(f"{section}.")]
            cells.append(f"{grades.count('OK')} of {len(grades)}" if grades else "–")
        print(f"| {section} | " + " | ".join(cells) + " |")
    print()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="sections 1 to 10 only")
    parser.add_argument("--place", type=Path, required=True, help="where the suite is installed")
    parser.add_argument("echo", type=Path, help="the program websocket-echo")
    arguments = parser.parse_args()
    started = time.monotonic()
    # These end the run as Ctrl-C does, except under nohup.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)

    directory = Path(tempfile.mkdtemp(prefix="run-", dir=arguments.place))
    run = Run(arguments.place / "py27" / "bin" / "python", arguments.echo.resolve(), directory)
    jobs = jobs_of(arguments.quick)
    outcomes = {(job.role, job.scheme): {} for job in jobs}
    pool = concurrent.futures.ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0)))
    kept = arguments.place / ("reports-quick" if arguments.quick else "reports")
    try:
        futures = {pool.submit(run.perform, job): job for job in jobs}
        for future in concurrent.futures.as_completed(futures):
            job = futures[future]
            outcomes[job.role, job.scheme].update(future.result())
            if not arguments.quick:
                print(f"{time.monotonic() - started:.0f} s: {job.name} is done", flush=True)
    finally:
        run.children.end()
        pool.shutdown(cancel_futures=True)
        with open(arguments.place / "lock", "w") as lock:
            # Another run may be ending too.
            fcntl.flock(lock, fcntl.LOCK_EX)
            shutil.rmtree(kept, ignore_errors=True)
            directory.rename(kept)

    counts = {"ws": BASIC_COUNT if arguments.quick else sum(SECTIONS.values()), "wss": OVER_TLS_COUNT}
    if not arguments.quick:
        print_sections(outcomes)
    is_good = [tell(role, scheme, results, counts[scheme]) for (role, scheme), results in outcomes.items()]
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{time.monotonic() - started:.0f} s on {len(os.sched_getaffinity(0))} cores, "
          f"{usage.ru_utime + usage.ru_stime:.0f} s of processor time; reports in {kept}")
    return 0 if all(is_good) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
