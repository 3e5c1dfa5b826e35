"""A program whose mount is away for a time: it makes files, says so, and looks after them when it is told that all is over."""

import errno
import fcntl
import os

for name in ["locked", "written", "read", "looked at"]:
    with open(name, "w") as file:
        file.write("before")
locked, written = os.open("locked", os.O_RDWR), os.open("written", os.O_RDWR)
unsafe_yet = os.open("unsafe yet", os.O_RDWR | os.O_CREAT)
read = os.open("read", os.O_RDONLY)
fcntl.flock(locked, fcntl.LOCK_EX)
assert os.pread(read, 10, 0) == b"before"
assert open("looked at").read() == "before"
os.write(unsafe_yet, b"x" * 100_000)

print("ready", flush=True)
assert input() == "go on"

# What was delegated is asked about, also by who has it open.
assert open("read").read() == open("looked at").read() == "changed"
assert os.pread(read, 10, 0) == b"changed"
# Files without locks are opened anew, and nothing that was written is lost.
os.pwrite(written, b" and behind", 6)
os.fsync(written)
os.fsync(unsafe_yet)
# Who has lost a lock is told, and writes nothing.
try:
    os.pwrite(locked, b"BEFORE", 0)
    os.fsync(locked)
    raise AssertionError("it was written under a lock that somebody else had had meanwhile")
except OSError as error:
    assert error.errno == errno.EIO, error
os.close(locked)
assert open("locked").read() == "changed"
# And all goes on.
locked = os.open("locked", os.O_RDWR)
fcntl.flock(locked, fcntl.LOCK_EX)
os.pwrite(locked, b"changed again", 0)
os.fsync(locked)
