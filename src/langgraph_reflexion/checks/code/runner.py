"""Run in a process of its own: evaluates one expression on the code of an answer and replies with its value.

Nothing here is trusted once that code has run; what must hold is held from outside, or by the kernel. The reply is
data only: exact types, told one by one, so that nothing of the code's own making compares itself.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="index, attr-defined"


def _quoting(json):
    """What writes a text as JSON: the function itself, past whatever `json` may be patched with later."""
    return json.encoder.encode_basestring_ascii


def _counting():
    """A stream that keeps nothing of what is written to it, and knows how much it was."""
    import io

    class Said(io.RawIOBase):
        total = 0

        def writable(self):
            return True

        def write(self, data):
            size = memoryview(data).nbytes
            Said.total += size
            return size

        def fileno(self):
            return 1

    return Said


def main() -> None:
    import ast
    import io
    import json
    import os
    import signal
    import sys

    job = json.loads(sys.stdin.buffer.read())
    reply_to, leave, write = os.dup(1), os._exit, os.write
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.close(nothing)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 — for as long as there is a process
    said = _counting()
    for stream in ("stdout", "stderr"):
        told = io.TextIOWrapper(said(), encoding="utf-8", errors="backslashreplace", write_through=True)
        setattr(sys, stream, told)
        setattr(sys, f"__{stream}__", told)

    def limited() -> None:
        try:
            import resource
        except ImportError:  # no limits of this kind on this system: time is kept from outside
            return
        room = job["memory_mb"] * 1024 * 1024
        seconds = int(job["timeout"]) + 2
        for name, most in (("AS", room), ("DATA", room), ("CPU", seconds), ("FSIZE", 0), ("CORE", 0), ("NOFILE", 64)):
            kind = getattr(resource, f"RLIMIT_{name}", None)
            if kind is not None:
                hard = resource.getrlimit(kind)[1]
                least = most if hard == resource.RLIM_INFINITY else min(most, hard)
                try:
                    resource.setrlimit(kind, (least, least))
                except (ValueError, OSError):  # macOS knows some of them by name only
                    continue

    def behind_a_filter() -> None:
        """The kernel refuses network, other processes and every change to files from here on; on Linux alone."""
        import ctypes
        import struct

        numbers = job["kernel"]
        special = numbers["special"]
        load, equal, at_least, any_of, give = 0x20, 0x15, 0x35, 0x45, 0x06
        allow, refuse, unknown, kill = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
        lines = [(load, 0, 0, 4), (equal, 1, 0, numbers["audit"]), (give, 0, 0, kill), (load, 0, 0, 0)]
        if "open" in special:  # numbers of a second set are refused all
            lines += [(at_least, 0, 1, 0x40000000), (give, 0, 0, refuse)]

        def where(number: int, argument: int, test: list[tuple[int, int, int, int]]) -> None:
            lines.append((equal, 0, len(test) + 1, number))
            lines.append((load, 0, 0, 16 + 8 * argument))
            lines.extend(test)

        where(special["clone"], 0, [(any_of, 0, 1, 0x10000), (give, 0, 0, allow), (give, 0, 0, refuse)])
        where(special["clone3"], 0, [(give, 0, 0, unknown)])
        where(special["tgkill"], 0, [(equal, 0, 1, os.getpid()), (give, 0, 0, allow), (give, 0, 0, refuse)])
        where(special["prlimit64"], 2, [(equal, 0, 1, 0), (give, 0, 0, allow), (give, 0, 0, refuse)])
        writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        for name, argument in (("open", 1), ("openat", 2)):
            if name in special:
                where(special[name], argument, [(any_of, 0, 1, writing), (give, 0, 0, refuse), (give, 0, 0, allow)])
        for number in numbers["plain"]:
            lines += [(equal, 0, 1, number), (give, 0, 0, refuse)]
        lines.append((give, 0, 0, allow))
        code = b"".join(struct.pack("HBBI", *line) for line in lines)
        held = ctypes.create_string_buffer(code, len(code))
        program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(lines), ctypes.addressof(held)))
        control = ctypes.CDLL(None, use_errno=True).prctl
        control.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
        control(1, signal.SIGKILL, 0, 0, 0)  # it ends with the process that asks
        control(4, 0, 0, 0, 0)  # and is no one's to look into
        if control(38, 1, 0, 0, 0) == 0:
            control(22, 2, ctypes.addressof(program), 0, 0)

    def watched() -> None:
        """What Python itself can refuse: files but the library's own, and whatever the kernel did not stop."""
        refused = (
            "socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.startfile", "os.fork",
            "pty.", "ctypes.", "os.kill", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink",
            "os.chmod", "os.chown", "os.chflags", "os.truncate", "os.utime", "os.setxattr", "os.removexattr", "shutil.",
            "tempfile.", "resource.", "signal.pthread_kill", "os.chdir", "os.fwalk", "winreg.", "msvcrt.", "_winapi.",
            "syslog.", "webbrowser.", "ensurepip.", "gc.get", "cpython.run_", "sqlite3.connect", "glob.glob", "mmap.",
            "fcntl.", "os.getxattr", "os.listxattr", "pathlib.Path.glob", "pathlib.Path.rglob", "pickle.find_class",
        )  # fmt: skip
        libraries = tuple(os.path.realpath(path) + os.sep for path in {*sys.path, os.path.dirname(os.__file__)} if path)
        text, raw, real, decode, separator = str, bytes, os.path.realpath, os.fsdecode, os.sep
        kind, refusal, writing = type, PermissionError, os.O_WRONLY | os.O_RDWR | os.O_CREAT
        flags_of, unknown = int, ImportError

        def watch(event, given):
            if event == "open" or event == "os.listdir" or event == "os.scandir":
                path = given[0]
                if kind(path) is raw:
                    path = decode(path)
                if kind(path) is not text:
                    if kind(path) is flags_of and event == "open":
                        return
                    raise refusal("code under test opens no files")
                if event == "open" and kind(given[2]) is flags_of and given[2] & writing:
                    raise refusal("code under test opens no files: " + path)
                if not (real(path) + separator).startswith(libraries):
                    raise refusal("code under test opens no files: " + path)
            elif event.startswith("ctypes."):
                raise unknown("code under test may not do this: " + event)
            elif event.startswith(refused) and event != "socket.__new__":
                raise refusal("code under test may not do this: " + event)

        sys.addaudithook(watch)

    # Bound before the code under test runs: what it does to Python's own names changes nothing here.
    kind_of, hexed, shown, run, value_of, fault_of_any = type, hex, repr, exec, eval, BaseException
    none, truth, whole, real, two, text, raw = type(None), bool, int, float, complex, str, bytes
    many, mapping, quoted = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}, dict, _quoting(json)

    def plainly(value):
        """The value as JSON: the name of its exact type, and what it holds."""
        kind = kind_of(value)
        if kind is none:
            return '["none"]'
        if kind is truth:
            return '["bool",1]' if value else '["bool",0]'
        if kind is whole:
            return '["int","' + hexed(value) + '"]'
        if kind is real:
            return '["float","' + value.hex() + '"]'
        if kind is two:
            return '["complex","' + value.real.hex() + '","' + value.imag.hex() + '"]'
        if kind is text:
            return '["str",' + quoted(value) + "]"
        if kind is raw:
            return '["bytes","' + value.hex() + '"]'
        if kind in many:
            return '["' + many[kind] + '",[' + ",".join([plainly(one) for one in value]) + "]]"
        if kind is mapping:
            pairs = ["[" + plainly(key) + "," + plainly(one) + "]" for key, one in value.items()]
            return '["dict",[' + ",".join(pairs) + "]]"
        return '["other",' + quoted(text(kind.__name__)) + "," + quoted(text(shown(value)[:500])) + "]"

    def fault_as(step, fault):
        name = kind_of(fault).__name__
        try:
            said = text(fault)[:1000]
        except fault_of_any:  # an exception of the code under test, with a text of its own
            said = ""
        return '["fault","' + step + '",' + quoted(name + (": " if said else "") + said) + "]"

    most, secret = job["longest"], job["secret"]
    tree = ast.parse(job["expression"])
    asked = compile(ast.Expression(tree.body.pop().value), "<case>", "eval")
    before = compile(tree, "<case>", "exec")
    names = {"__name__": "answer", "__builtins__": __builtins__}
    import types

    home = types.ModuleType("answer")
    home.__dict__.update(names)
    sys.modules["answer"] = home
    limited()
    if job["kernel"] is not None:
        behind_a_filter()
    for name in [one for one in sys.modules if one.split(".")[0] in ("ctypes", "_ctypes")]:
        del sys.modules[name]  # what it holds could reach past Python
    watched()
    step = "load"
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, job["timeout"])
    try:
        run(compile(job["code"], "<answer>", "exec"), home.__dict__)
        write(reply_to, b"loaded\n")
        step = "case"
        run(before, home.__dict__)
        out = '["value",' + plainly(value_of(asked, home.__dict__)) + "]"
        if out.__len__() > most:
            out = '["fault","case","its value is too long to be told"]'
    except fault_of_any as fault:  # whatever the code under test raises is told
        out = fault_as(step, fault)
    line = (secret + "[" + out + ',"' + hexed(said.total) + '"]\n').encode("ascii")
    while line:
        line = line[write(reply_to, line) :]
    leave(0)


main()
