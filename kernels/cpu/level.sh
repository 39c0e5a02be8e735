#!/bin/sh
# Print the level of this machine's processor in the notation of kernels.mk.
[ "$(uname -m)" = x86_64 ] || {
    echo baseline
    exit
}
flags=" $(sed -n '/^flags/{s/.*: //p;q;}' /proc/cpuinfo) "
level=v2
has() {
    for flag in "$@"; do
        case $flags in *" $flag "*) ;; *) return 1 ;; esac
    done
}
if has avx2 bmi1 bmi2 fma; then
    level=v3
    if has avx512f avx512bw avx512cd avx512dq avx512vl; then
        level=v4
        # AMD's processors from Zen 5 on execute 512 bits at once.
        if has avx512_vp2intersect && grep -q '^vendor_id.*AuthenticAMD' /proc/cpuinfo; then level=v4_512; fi
    fi
fi
echo "$level"
