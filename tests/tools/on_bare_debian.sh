#!/usr/bin/env bash
# on_bare_debian.sh 'COMMAND' [FOLDER]: runs COMMAND in a fresh clone of this repository's HEAD, in a Debian 12 that holds
# only bash, git and certificates. Finds install steps that a well-furnished machine hides. Needs root and debootstrap.
# FOLDER (default: a temporary one) keeps the base system for the next time.
set -euo pipefail
command=$1
repository=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)
kept=${2:-}
folder=${kept:-$(mktemp -d)}
[[ $(id -u) -eq 0 ]] || { echo "error: needs root" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "error: needs debootstrap: apt-get install debootstrap" >&2; exit 2; }

base=$folder/base
run=$folder/run
leave() {
  for mount in "$run/proc" "$run/dev"; do umount -l "$mount" 2>/dev/null || true; done
  rm -rf --one-file-system "$run"
  [[ -n $kept ]] || rm -rf --one-file-system "$folder"
}
trap leave EXIT
if [[ ! -e $base.complete ]]; then
  rm -rf "$base"
  debootstrap --variant=minbase --include=bash,ca-certificates,git bookworm "$base" >"$folder/debootstrap.log"
  touch "$base.complete"
fi
rm -rf --one-file-system "$run"
cp -a "$base" "$run"
mount -t proc proc "$run/proc"
mount --rbind /dev "$run/dev"
mount --make-rslave "$run/dev"
cp /etc/resolv.conf /etc/hosts "$run/etc/"
# Behind a proxy that signs its own certificates pip needs the host's.
cp /etc/ssl/certs/ca-certificates.crt "$run/etc/host-certificates.crt"
git clone -q "$repository" "$run/root/roundel"
env -i HOME=/root TERM=dumb LANG=C.UTF-8 CI="${CI:-}" PIP_CERT=/etc/host-certificates.crt \
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  chroot "$run" bash -c "cd /root/roundel && $command"
