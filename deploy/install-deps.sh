#!/bin/sh
# Install what Tally needs and this machine lacks, with apt-get (Debian 12 and 13, Ubuntu 24.04).
#
#   deploy/install-deps.sh [run] [test] [clients] [lint] [bench] [mlserver] [sanitizers] [oclgrind] [gpu] [release]      (default: run)
#
#   run    compilers (clang for the kernels), libraries
#   test   packages for the test suites, and a Python environment in build/venv; among them PoCL, an OpenCL
#          driver that compiles: with PoCL the tests prove that the kernels compile from source
#   clients  compilers and interpreters of the programs in docs/clients (`make test-clients`)
#   lint   the checkers of `make lint`, and a Python environment in build/lint-venv
#   bench  the peers with which `make bench` compares Tally (5 GB of Python packages; set VENV to separate them)
#   mlserver  MLServer for `make bench`, which needs a separate environment (set VENV)
#   sanitizers  clang's sanitizers, for `make asan`, `make fuzz` and the kernel proofs
#   oclgrind  for the kernel proofs
#   gpu    the compiler, of one version, and the model checker of the kernel proofs for GPUs
#   release  programs that make and check Debian packages, and all files of a release
#
# The script is quick if nothing is missing: a dpkg-query, and a check of the environment. It may be run repeatedly and
# concurrently. TALLY_NO_INSTALL=1: report missing packages, install none. VENV=DIR: folder of the Python environment.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)

run_packages="make gcc g++ clang libc6-dev pkg-config libmicrohttpd-dev libgnutls28-dev libjansson-dev libuv1-dev
     zlib1g-dev libisal-dev libcurl4-openssl-dev libssl-dev ocl-icd-opencl-dev opencl-headers"
test_packages="pocl-opencl-icd clinfo libcmocka-dev curl wrk python3 python3-venv valgrind openssl zsh fish nodejs
    nginx prometheus haproxy iproute2 socat systemd libseccomp2"
clients_packages="golang-go default-jdk-headless rustc r-base-core r-cran-curl"
browser_packages="chromium chromium-driver" # for the console's tests; Ubuntu has only snaps of them
lint_packages="libcmocka-dev clang clang-tidy cppcheck shellcheck python3 python3-venv git
    groff-base"
gpu_packages="clang-19 spin"
release_packages="build-essential debhelper fakeroot git lintian mmdebstrap debian-archive-keyring python3 python3-venv
     qemu-user-static"

say() { printf 'install-deps: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

# Print the given packages that are not installed.
missing_of() {
    # shellcheck disable=SC2016  # the braces are dpkg-query's
    installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
        sed -n 's/^installed //p') || true
    for package in "$@"; do
        printf '%s\n' "$installed" | grep -qxF -- "$package" || printf '%s ' "$package"
    done
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo -- "$@"
    else
        die "not root and no sudo here; run this as root: $*"
    fi
}

install_packages() {
    [ $# -gt 0 ] || return 0
    command -v apt-get >/dev/null 2>&1 ||
        die "no apt-get here; install the equivalents of these Debian packages: $*"
    [ -z "${TALLY_NO_INSTALL:-}" ] || die "missing (TALLY_NO_INSTALL is set): $*"
    say "installing $*"
    # The lists may be absent or stale: refresh them only if the first try fails.
    apt_install "$@" || { apt_get update && apt_install "$@"; } ||
        die "apt-get could not install: $*; see its messages above, then run this again"
}

# Run one apt-get at a time: it waits for another one's lock when it installs, but not when it refreshes its lists.
apt_get() {
    as_root flock -w 3600 /var/lib/dpkg env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q "$@" >&2
}
apt_install() { apt_get install -y --no-install-recommends "$@"; }

# Return whether a Python environment is usable. If the version of Python changed, its packages are in another folder.
# If the environment was moved, the first line of its programs contains a wrong path.
venv_is_whole() {
    "$1/bin/python" -c 'import pip' && read -r first <"$1/bin/pip" && first=${first#'#!'} && [ -x "${first%% *}" ]
} 2>/dev/null

pip_install() { "$venv/bin/python" -m pip install -q --no-compile --disable-pip-version-check "$@" >&2; }

# make_venv NAME REQUIREMENTS: make a Python environment, or update it if its requirements changed.
make_venv() {
    venv=${VENV:-$top/build/$1}
    requirements=$2
    stamp=$venv/.$(basename "$requirements" .txt).$(cksum <"$requirements" | tr ' ' -)
    [ -e "$stamp" ] && venv_is_whole "$venv" && return 0
    [ -z "${TALLY_NO_INSTALL:-}" ] || die "$venv lacks $requirements (TALLY_NO_INSTALL is set)"
    mkdir -p "$venv"
    # A concurrent run waits here, and then finds the environment complete.
    exec 9<"$venv"
    flock 9
    [ -e "$stamp" ] && venv_is_whole "$venv" && return 0
    say "making the Python environment $venv from $(basename "$requirements")"
    # Clear the folder only if it is an environment: VENV may name any folder.
    clear=''
    [ ! -e "$venv/pyvenv.cfg" ] || clear=--clear
    # shellcheck disable=SC2086  # empty or one word
    venv_is_whole "$venv" || python3 -m venv $clear "$venv" ||
        die "python3 -m venv $venv failed; is python3-venv of this Python installed?"
    # uv needs a third of pip's processor time, but does not read pip's configuration (an index, wheels in a folder): if
    # uv does not find every package, pip installs them. The packages are not compiled ahead, because most modules are
    # never imported.
    { pip_install uv==0.13.9 && "$venv/bin/uv" pip install -q --python "$venv/bin/python" -r "$requirements" >&2; } ||
        pip_install -r "$requirements" ||
        die "neither uv nor pip could install $requirements; is the Python package index reachable?"
    : >"$stamp"
    exec 9<&-
}

optional() { # print the given packages that this distribution has
    for package in "$@"; do
        if apt-cache show "$package" >/dev/null 2>&1; then
            printf '%s ' "$package"
        else
            say "no package $package here: going on without it"
        fi
    done
}

main() {
    [ $# -gt 0 ] || set -- run
    wanted=''
    for group in "$@"; do
        case $group in
        run) wanted="$wanted $run_packages" ;;
        test) wanted="$wanted $run_packages $test_packages" ;;
        clients) wanted="$wanted $clients_packages" ;;
        lint) wanted="$wanted $run_packages $lint_packages" ;;
        bench) wanted="$wanted $run_packages $test_packages" ;;
        mlserver) wanted="$wanted python3 python3-venv" ;;
        sanitizers) wanted="$wanted clang" ;;
        oclgrind) ;;
        gpu) wanted="$wanted $gpu_packages" ;;
        release) wanted="$wanted $release_packages" ;;
        *) die "no group '$group'; there are: run, test, clients, lint, bench, mlserver, sanitizers, oclgrind, gpu, release" ;;
        esac
    done
    command -v dpkg-query >/dev/null 2>&1 ||
        die "not a Debian-like system; install the equivalents of: $wanted"
    # shellcheck disable=SC2086  # lists of words
    missing=$(missing_of $wanted)
    # shellcheck disable=SC2086
    install_packages $missing
    for group in "$@"; do
        case $group in
        test)
            # shellcheck disable=SC2046,SC2086
            install_packages $(optional $(missing_of $browser_packages))
            make_venv venv "$top/tests/requirements.txt"
            ;;
        lint) make_venv lint-venv "$top/tests/requirements-lint.txt" ;;
        bench) make_venv venv "$top/tests/bench/requirements-peers.txt" ;;
        mlserver) make_venv venv "$top/tests/bench/requirements-mlserver.txt" ;;
        sanitizers)
            # shellcheck disable=SC2046
            install_packages $(missing_of "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev")
            ;;
        oclgrind)
            # shellcheck disable=SC2046
            install_packages $(optional $(missing_of oclgrind))
            ;;
        esac
    done
}

main "$@"
