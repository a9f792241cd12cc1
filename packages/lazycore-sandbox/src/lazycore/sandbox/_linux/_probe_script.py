"""The program that a probe runs inside the sandbox: it tries, and tells what held.

It is source text because the sandbox need not be able to read this package. Each
check answers True when the attempt was stopped; the prober knows what each one means.
"""

SCRIPT = r"""
import _thread, ctypes, json, os, socket, sys, time
P = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
R = {}

def stopped(name, attempt):
    try:
        attempt()
    except (OSError, RuntimeError):
        R.setdefault(name, True)
    else:
        R[name] = False

def call(function, *args):
    if function(*args) < 0:
        raise OSError(ctypes.get_errno(), "refused")

def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(1)
        s.connect(address)

def datagram():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b"x", ("127.0.0.1", P["udp"]))
    if not P["own_network"]:
        return
    raise OSError  # it went to the sandbox's own loopback; the prober listens

def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            import fcntl
            f = open(P["lock"], "w")
            fcntl.flock(f, fcntl.LOCK_EX)
            open(P["locked"], "w").close()
            time.sleep(60)
        os._exit(0)

stopped("read", lambda: open(P["hidden"], "rb").read())
stopped("metadata", lambda: os.stat(P["hidden"]))
stopped("metadata", lambda: os.chmod(P["hidden"], 0o640))
stopped("metadata", lambda: os.chmod(P["shown"], 0o640))
# Whether these reached the host is for the prober to see: a private /tmp may
# have a directory of the same name.
stopped("tried", lambda: open(P["hidden"], "ab").write(b"x"))
stopped("tried", lambda: open(P["shown"], "ab").write(b"x"))
stopped("tried", lambda: open(P["shown"] + ".new", "ab").write(b"x"))
stopped("tried", lambda: os.rename(P["own"], P["shown"]))
stopped("tried", lambda: os.unlink(P["shown"]))
stopped("deny", lambda: open(P["denied"], "rb").read())
stopped("deny", lambda: os.rename(P["denied_parent"], P["denied_parent"] + ".moved"))
stopped("network", lambda: connect(socket.AF_INET, ("127.0.0.1", P["tcp"])))
stopped("network", datagram)
os.chdir(P["sockets"])
stopped("unix", lambda: connect(socket.AF_UNIX, "socket"))
stopped("unix", lambda: connect(socket.AF_UNIX, "\0" + P["abstract"]))
stopped("signal", lambda: os.kill(P["pid"], 0))
stopped("ipc", lambda: call(libc.shmget, P["shm"], 1, 0))
stopped("root", lambda: os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)))
stopped("root", lambda: call(libc.mount, b"none", b"/tmp", b"tmpfs", 0, None))
stopped("root", lambda: os.mknod(P["workspace"] + "/node", 0o20600, os.makedev(1, 1)))
stopped("root", lambda: os.chmod(P["own"], 0o4755))
stopped("root", lambda: os.chown(P["own"], 12345, 12345))
R["root"] = R["root"] and libc.prctl(39, 0, 0, 0, 0) == 1  # PR_GET_NO_NEW_PRIVS
R["env"] = set(os.environ) <= {"PATH", "HOME", "LANG", "TMPDIR", "LC_CTYPE"}
R["fds"] = True
for fd in range(3, 256):
    try:
        os.fstat(fd)
    except OSError:
        continue
    R["fds"] = False
R["writes"] = False
with open(P["own"], "ab") as f:
    f.write(b"x")
    R["writes"] = True
daemon()
for _ in range(5000):  # as long as a starved machine may need
    if os.path.exists(P["locked"]):
        break
    time.sleep(0.002)
R["daemon_started"] = os.path.exists(P["locked"])
if P["processes"]:
    # Threads count like processes and start faster.
    _thread.stack_size(1 << 16)
    gate = _thread.allocate_lock()
    gate.acquire()
    started = 0
    R["processes"] = False
    try:
        while started <= P["processes"] + 8:
            _thread.start_new_thread(gate.acquire, ())
            started += 1
    except RuntimeError:
        R["processes"] = started < P["processes"]
print(json.dumps(R), flush=True)
os._exit(0)
"""

START_SCRIPT = r"""
import os, sys
folder, victim, loader = sys.argv[1:]

def starts(*argv):
    pid = os.fork()
    if not pid:
        try:
            os.execv(argv[0], [*argv, "-c", "exit 42"])
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42

copy = folder + "/copy"
with open(victim, "rb") as source, open(copy, "wb") as target:
    target.write(source.read())
os.chmod(copy, 0o755)
attempts = [(victim,), (copy,)]
if loader:
    attempts += [(loader, victim), (loader, copy)]
try:
    memory = os.memfd_create("copy", 0)
    with open(victim, "rb") as source:
        os.write(memory, source.read())
    attempts.append((f"/proc/self/fd/{memory}",))
except OSError:
    pass
os._exit(1 if any(starts(*attempt) for attempt in attempts) else 0)
"""
