"""The shim in roots of other Debian releases, with musl, for arm64, and on the wire of a virtual machine."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TARGETS = ["rdma_test"]

ROOT = pathlib.Path(__file__).resolve().parents[3]
ROOTS = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "espalier/reach-roots"
RELEASES = ["bullseye", "bookworm", "trixie", "sid"]
PACKAGES = "ibverbs-utils,ibverbs-providers,perftest,ucx-utils"
MIRROR = "http://deb.debian.org/debian"
CANNOT_RUN = 77

SOURCES = [str(ROOT / "tests/agent/verbs/front" / file) for file in ("program.c", "use_device.c")]

AT = "/opt/espalier/reach"
FAKES = "/opt/espalier/fakes"
PRELOAD = f"LD_PRELOAD={AT}/libespalier-verbs.so"
PROGRAMS = ["true", "false", "ls /", "sh -c 'ls / | wc -l'", "ibv_devices", "ibv_devinfo", "ib_write_bw -h",
            "ucx_info -d"]
WAYS = ["LD_PRELOAD", "ld.so.preload", "LD_LIBRARY_PATH"]


def skip(what, reason):
    print(f"skipped: {what}: {reason}", file=sys.stderr)


def row(name, value, aim):
    return {"name": name, "value": value, "aim": aim, "ok": value == aim}


def make_root(release):
    """Returns the root of the release, made with debootstrap where it is missing; None if it cannot be made."""
    root = ROOTS / release
    if (root / "usr/bin/ibv_devices").exists():
        return root
    if shutil.which("debootstrap") is None:
        return skip(release, "debootstrap is missing (apt-get install debootstrap)")
    part = ROOTS / f"{release}.part"
    shutil.rmtree(part, ignore_errors=True)
    ROOTS.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", release, str(part),
                           MIRROR], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if made.returncode != 0:
        return skip(release, "debootstrap failed: " + (made.stdout + made.stderr).strip().splitlines()[-1])
    part.rename(root)
    return root


def zig():
    """The compiler for old systems (deploy/packages/reach); None: there is none."""
    for command in ([os.environ.get("ZIG", "zig")], [sys.executable, "-m", "ziglang"]):
        try:
            if subprocess.run([*command, "version"], capture_output=True).returncode == 0:
                return command
        except OSError:
            continue
    return None


def old_programs(fakes, to):
    """Builds the test programs for glibc 2.17 in this folder; returns whether it can."""
    compiler = zig()
    if compiler is None:
        return False
    for file, extra in (("unlinked", []), ("linked", ["-DFAKE_LINKED", f"{fakes}/28/libibverbs.so.1"])):
        subprocess.run([*compiler, "cc", "-target", "x86_64-linux-gnu.2.17", "-I", str(ROOT), "-isystem",
                        str(ROOT / "build/reach/include"), *SOURCES, *extra, "-ldl", "-lpthread", "-o",
                        f"{to}/front_program_{file}"], check=True, capture_output=True)
    return True


def run_in(root, reach, fakes, script):
    """Output and exit code of a shell's script in the root, with the shim's folder, less numbers that vary."""
    for folder in (AT, FAKES):
        (root / folder[1:]).mkdir(parents=True, exist_ok=True)
    mounts = (f"mount --bind {reach} {root}{AT} && mount --bind {fakes} {root}{FAKES} && "
              f"mount -t proc proc {root}/proc && mount --bind /sys {root}/sys && "
              f"mount --bind /dev {root}/dev && exec chroot {root} sh -c \"$0\"")
    done = subprocess.run(["unshare", "-m", "sh", "-c", mounts, script], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, errors="replace")
    return re.sub(r"\d+", "N", done.stdout + done.stderr), done.returncode


def script_for(way, program):
    if way == "LD_PRELOAD":
        return f"export {PRELOAD}; {program}"
    if way == "LD_LIBRARY_PATH":
        return f"export LD_LIBRARY_PATH={AT}; {program}"
    # Only this mount namespace sees the file.
    return (f"mkdir -p /run/etc && mount -t tmpfs tmpfs /run && cp -a /etc /run/etc && "
            f"echo {AT}/libespalier-verbs.so >/run/etc/ld.so.preload && mount --bind /run/etc /etc && {program}")


def same_output(root, release, reach, fakes):
    for way in WAYS:
        same = 0
        for program in PROGRAMS:
            without = run_in(root, reach, fakes, program)
            same += run_in(root, reach, fakes, script_for(way, program)) == without
        yield row(f"images, {release}, {way}: programs with the same output and exit code",
                  f"{same} of {len(PROGRAMS)}", f"{len(PROGRAMS)} of {len(PROGRAMS)}")


def reached(root, release, reach, fakes):
    """Programs as NCCL and NVSHMEM, and one that is linked, with fake copies of libibverbs: whether the engine has a
    queue pair. There is no agent."""
    at = FAKES
    if release == "bullseye":
        at = "/opt/espalier/programs"
        (root / at[1:]).mkdir(parents=True, exist_ok=True)
        if not old_programs(fakes, root / at[1:]):
            return skip(f"{release}: programs as NCCL", "there is no zig to build them for its glibc")
    cases = [("LD_PRELOAD", PRELOAD, "unlinked", "nccl"), ("LD_PRELOAD", PRELOAD, "unlinked", "nvshmem"),
             ("LD_PRELOAD", PRELOAD, "linked", "linked"),
             ("NCCL_IBVERBS_LIB", f"NCCL_IBVERBS_LIB={AT}/libibverbs.so", "unlinked", "nccl"),
             ("LD_LIBRARY_PATH", "", "unlinked", "nccl")]
    for way, words, file, kind in cases:
        path = f"{AT}:{FAKES}/44" if way == "LD_LIBRARY_PATH" else f"{FAKES}/44"
        program = f"LD_LIBRARY_PATH={path} ESPALIER_VERBS_VERBOSE=1 {words} {at}/front_program_{file} {kind}"
        output, code = run_in(root, reach, fakes, program)
        without = run_in(root, reach, fakes, f"LD_LIBRARY_PATH={FAKES}/44 {at}/front_program_{file} {kind}")
        rest = "".join(line for line in output.splitlines(True) if not line.startswith("espalier-verbs:"))
        value = ("changed" if (rest, code) != without else
                 "reached" if "espalier-verbs: queue pair" in output else "not reached")
        yield row(f"images, {release}, {way}: program as {kind}", value, "reached")


def with_musl(reach):
    compiler = shutil.which("musl-gcc")
    if compiler is None:
        return skip("musl", "musl-gcc is missing (apt-get install musl-tools)")
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "program.c"
        source.write_text("#include <dlfcn.h>\n#include <stdio.h>\n"
                          "int main(void) { printf(\"%d\\n\", dlopen(\"libibverbs.so.1\", RTLD_NOW) != NULL);"
                          " puts(dlerror()); return 3; }\n")
        program = str(pathlib.Path(folder) / "program")
        subprocess.run([compiler, str(source), "-o", program], check=True)
        return same_here("musl", [program], reach)


def same_here(name, command, reach):
    def run(extra):
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ) | extra)
        return done.stdout, done.stderr, done.returncode

    with_front = run({"LD_PRELOAD": f"{reach}/libespalier-verbs.so"})
    return row(f"images, {name}: output and exit code", "same" if with_front == run({}) else str(with_front), "same")


def with_arm64():
    emulator = shutil.which("qemu-aarch64-static")
    compiler = shutil.which("aarch64-linux-gnu-gcc")
    libraries = "/usr/aarch64-linux-gnu"
    reach = ROOT / "build/reach/aarch64"
    if emulator is None or compiler is None:
        return skip("arm64", "apt-get install qemu-user-static gcc-aarch64-linux-gnu libc6-dev-arm64-cross")
    if not (reach / "libespalier-verbs.so").exists():
        return skip("arm64", "build/reach/aarch64 is missing (deploy/packages/reach)")
    with tempfile.TemporaryDirectory() as folder:
        built = pathlib.Path(folder)
        subprocess.run([compiler, "-I", str(ROOT), "-idirafter", "/usr/include", *SOURCES, "-o",
                        str(built / "program")], check=True)
        script = built / "map"
        script.write_text("IBVERBS_1.1 { *; };\n")
        subprocess.run([compiler, "-I", str(ROOT), "-idirafter", "/usr/include", "-shared", "-fPIC",
                        '-DFAKE_COPY="arm64"', "-DFAKE_RELEASE=44", f"-Wl,--version-script={script}",
                        "-Wl,-soname,libibverbs.so.1", str(ROOT / "tests/agent/verbs/front/fake_ibverbs.c"),
                        "-o", str(built / "libibverbs.so.1")], check=True)
        command = [emulator, "-L", libraries, "-E", f"LD_LIBRARY_PATH={built}"]
        plain = subprocess.run([*command, str(built / "program"), "nccl"], capture_output=True, text=True)
        loaded = subprocess.run([*command, "-E", f"LD_PRELOAD={reach}/libespalier-verbs.so", "-E",
                                 "ESPALIER_VERBS_VERBOSE=1", str(built / "program"), "nccl"],
                                capture_output=True, text=True)
        same = (plain.stdout, plain.returncode) == (loaded.stdout, loaded.returncode)
        value = ("changed" if not same else
                 "reached" if "espalier-verbs: queue pair" in loaded.stderr else "not reached")
        return row("images, arm64 (emulated), LD_PRELOAD: program as nccl", value, "reached")


def checks(folder):
    library_folder = folder.parent / "lib"
    portable = ROOT / "build/reach/x86_64"
    reach = portable if (portable / "libespalier-engine.so").exists() else library_folder / "reach"
    print(f"the shim is that of {reach}", file=sys.stderr)
    if os.geteuid() != 0:
        skip("images", "this needs root")
    else:
        for release in RELEASES:
            root = make_root(release)
            if root is not None:
                yield from same_output(root, release, reach, library_folder / "fakes")
                yield from reached(root, release, reach, library_folder / "fakes")
    for found in (with_musl(reach), with_arm64()):
        if found is not None:
            yield found


def wire(folder):
    # In two boots, as ctest runs them (tests/rdma/CMakeLists.txt).
    for tests in ("RdmaShim.*-*.Long*", "RdmaShim.Long*"):
        command = [str(ROOT / "deploy/lab/rdma/start"), "--time-limit", "600", "--", str(folder / "rdma_test"),
                   f"--gtest_filter={tests}"]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode == CANNOT_RUN:
            return skip("wire", done.stderr.strip())
        for name in re.findall(r"\[ RUN      \] RdmaShim\.(\w+)", done.stdout):
            passed = re.search(rf"\[       OK \] RdmaShim\.{name}\b", done.stdout) is not None
            yield row(f"wire, {name}", "passed" if passed else "failed", "passed")
