#!/bin/sh
# A program below a root of its own, in a mount namespace of its own, as containers have it: unshare -m sh contained.sh RUN LIBRARIES MACHINE PROGRAM ARGUMENTS…
# There the GPU's libraries are copies, and /run is a file system with the mount options RUN.
set -e
run=$1 libraries=$2 machine=$3 program=$4
shift 4
root=$(mktemp -d "$machine/root.XXXXXX")
mount -t tmpfs none "$root"
mkdir -p "$root/usr" "$root/proc" "$root/tmp" "$root/run"
mount -t tmpfs none "$root/run"
mkdir -p "$root$libraries" "$root$machine"
mount -t tmpfs none "$root$libraries"
ln -s usr/lib "$root/lib"
ln -s usr/lib64 "$root/lib64"
mount --bind /usr "$root/usr"
mount --bind "$machine" "$root$machine"
mount -t proc proc "$root/proc"
mount -o "remount,$run" "$root/run"
cp -a "$libraries/." "$root$libraries"
cp "$program" "$root/program"
export LD_LIBRARY_PATH="$libraries"
exec chroot "$root" /program "$@"
