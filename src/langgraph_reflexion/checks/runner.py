"""Run in a separate process: evaluate an expression on the code of an answer and reply with its value.

The process gets the code and the expression, never the expected value, so the code cannot make a wrong value right.
`sandbox.py` runs this file as text.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="index, attr-defined, assignment"


def make_encoder():
    """Return a function that writes plain data as JSON, with the exact type of each value.

    It binds what it needs now: the code under test may patch Python's own names later.
    """
    from json.encoder import encode_basestring_ascii as quoted

    kind_of, as_hex, text, none, in_order = type, hex, str, type(None), sorted
    listed = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}

    def encode(value):
        kind = kind_of(value)
        if kind is none:
            return '["none"]'
        if kind is bool:
            return '["bool",1]' if value else '["bool",0]'
        if kind is int:
            return '["int","' + as_hex(value) + '"]'
        if kind is float:
            return '["float","' + value.hex() + '"]'
        if kind is complex:
            return '["complex","' + value.real.hex() + '","' + value.imag.hex() + '"]'
        if kind is text:
            return '["str",' + quoted(value) + "]"
        if kind is bytes:
            return '["bytes","' + value.hex() + '"]'
        if kind in listed:
            items = [encode(item) for item in value]
            return '["' + listed[kind] + '",[' + ",".join(in_order(items) if kind in (set, frozenset) else items) + "]]"
        if kind is dict:
            pairs = ["[" + encode(key) + "," + encode(item) + "]" for key, item in value.items()]
            return '["dict",[' + ",".join(in_order(pairs)) + "]]"
        return '["other",' + quoted(text(kind.__name__)) + "]"

    return encode


def main():
    import ast
    import json
    import os
    import signal
    import sys
    import types
    from json.encoder import encode_basestring_ascii as quoted

    job = json.loads(sys.stdin.buffer.read())
    reply_to, leave, write = os.dup(1), os._exit, os.write
    for number in (0, 1):  # standard error leads nowhere already
        os.dup2(2, number)
    if sys.platform == "linux":
        drop_privileges(job["in_namespaces"])
    set_limits(job["timeout"], job["memory_mb"], job["processes"])

    encode, run, evaluate, shown_as, text, anything = make_encoder(), exec, eval, repr, str, BaseException
    tree = ast.parse(job["expression"])
    expression = compile(ast.Expression(tree.body.pop().value), "<case>", "eval")
    before = compile(tree, "<case>", "exec")
    module = types.ModuleType("answer")
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["answer"] = module

    def fault_as(step, fault):
        name = type(fault).__name__
        try:
            words = text(fault)[:1000]
        except anything:  # an exception whose text raises
            words = ""
        return '["fault","' + step + '",' + quoted(name + (": " if words else "") + words) + "]"

    guard_against_mistakes()
    step = "load"
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, job["timeout"])
    try:
        run(compile(job["code"], "<answer>", "exec"), module.__dict__)
        write(reply_to, b"loaded\n")
        step = "case"
        run(before, module.__dict__)
        value = evaluate(expression, module.__dict__)
        encoded = encode(value)
        if encoded.__len__() > job["longest"]:
            reply = '["fault","case","its value is too long"]'
        else:
            try:
                shown = shown_as(value)[:1000]
            except ValueError:  # a whole number of more digits than Python writes
                shown = "a value too long to show"
            reply = '["value",' + encoded + "," + quoted(shown) + "]"
    except anything as fault:  # whatever the code raises
        reply = fault_as(step, fault)
    line = (job["token"] + reply + "\n").encode("ascii")
    while line:
        line = line[write(reply_to, line) :]
    leave(0)


def drop_privileges(in_namespaces):
    """Give up all privileges, including those of root. In separate namespaces, first detach the machine's files."""
    import ctypes
    import struct

    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, detach, version = 38, 2, 0x20080522
    failed = libc.umount2(b"/old", detach) if in_namespaces else 0
    failed = libc.capset(struct.pack("Ii", version, 0), bytes(24)) or failed
    failed = libc.prctl(no_new_privileges, 1, 0, 0, 0) or failed
    if failed and in_namespaces:
        raise OSError(ctypes.get_errno(), "the namespaces could not be closed")


def set_limits(seconds, memory_mb, processes):
    """Limit memory, processor time, files and processes, as far as the system allows."""
    try:
        import resource
    except ImportError:  # Windows: only the time is limited, from outside
        return
    memory = memory_mb * 1024 * 1024
    limits = {"AS": memory, "DATA": memory, "CPU": int(seconds) + 2, "FSIZE": 0, "CORE": 0, "NOFILE": 64}
    limits["NPROC"] = processes
    for name, limit in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is None or limit is None:
            continue
        hard = resource.getrlimit(kind)[1]
        least = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        try:
            resource.setrlimit(kind, (least, least))
        except (ValueError, OSError):  # macOS does not know all of them
            continue


def guard_against_mistakes():
    """Refuse files, network and other processes in Python itself. This stops an accident, not an attack."""
    import os
    import sys

    refused = ("socket.connect", "socket.bind", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork")
    refused += ("os.kill", "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate")
    refused += ("shutil.", "pty.", "ctypes.", "sqlite3.connect")
    allowed = {*sys.path, os.path.dirname(os.__file__), "/usr/share/zoneinfo"}
    libraries = tuple(os.path.realpath(path) + os.sep for path in allowed if path)
    writing, real_path, is_text = os.O_WRONLY | os.O_RDWR | os.O_CREAT, os.path.realpath, str

    def watch(event, given):
        if event == "open" and isinstance(given[0], is_text):
            outside = not (real_path(given[0]) + "/").startswith(libraries)
            if outside or (isinstance(given[2], int) and given[2] & writing):
                raise PermissionError("code under test may not open files: " + given[0])
        elif event.startswith(refused):
            raise PermissionError("code under test may not do this: " + event)

    sys.addaudithook(watch)


if __name__ == "__main__":
    main()
