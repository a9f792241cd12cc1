"""Linux mechanisms: system calls, mounts, Landlock, seccomp and the launcher."""
