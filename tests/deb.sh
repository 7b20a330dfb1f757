#!/bin/sh
# deb.sh PROGRAM FOLDER: `make deb`. A Debian package of what `make install` installs, with the documentation and the examples, in FOLDER; its name
# is the last line printed. What it depends on is read from the program (dpkg-shlibdeps), so it is for the Debian that it is built on.
set -eu
program=$1 out=$2
stage=$out/stage
rm -rf "$stage" && mkdir -p "$stage/debian"
trap 'rm -rf "$stage"' EXIT

# The program's own version; where git knows the commit, its day and name too, so that a later one is newer to apt.
version=$("$program" --version | sed 's/^siTrain //')
commit=$(git log -1 --format=%cd.%h --date=format:%Y%m%d%H%M 2>/dev/null || true)
[ -z "$commit" ] || version=$version+git$commit$([ -z "$(git status --porcelain --untracked-files=no)" ] || echo .changed)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

root=$stage/root
doc=$root/usr/share/doc/sitrain
make --no-print-directory install PREFIX=/usr DESTDIR="$(realpath "$stage")/root" >/dev/null
strip --strip-unneeded "$root/usr/bin/siTrain"
gzip -9n "$root/usr/share/man/man1/siTrain.1"
install -d "$doc/docs" "$doc/examples"
cp README.md "$doc/"
cp -r docs/. "$doc/docs/"
cp -r examples/. "$doc/examples/"
{
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: siTrain\n\nFiles: *\n'
    sed -n 's/^Copyright (c) /Copyright: /p' LICENSE
    printf 'License: Expat\n'
    sed '1,/^Copyright/d' LICENSE | sed '1{/^$/d}; s/^$/./; s/^/ /'
} >"$doc/copyright"
maintainer="${DEBFULLNAME:-The siTrain authors} <${DEBEMAIL:-sitrain@localhost}>"
printf 'sitrain (%s) unstable; urgency=medium\n\n  * Made from its sources by make deb.\n\n -- %s  %s\n' "$version" "$maintainer" \
    "$(date -uR -d "@$SOURCE_DATE_EPOCH")" | gzip -9n >"$doc/changelog.gz"
find "$root" -type d -exec chmod 755 {} +
find "$root/usr/share" -type f -exec chmod 644 {} +
find "$doc/examples" -name '*.sh' -exec chmod 755 {} +

printf 'Source: sitrain\n\nPackage: sitrain\nArchitecture: any\n' >"$stage/debian/control"
depends=$(cd "$stage" && dpkg-shlibdeps -O root/usr/bin/siTrain | sed -n 's/^shlibs:Depends=//p')
[ -n "$depends" ] || { echo "dpkg-shlibdeps knows no package that $program needs" >&2; exit 1; }
# siTrain's threads are OpenMP's; libopenblas0 alone would bring the OpenBLAS that has a pool of its own
depends="libopenblas0-openmp, $depends"
arch=$(dpkg --print-architecture)
install -d "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<END
Package: sitrain
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -k -s --apparent-size "$root" | cut -f1)
Depends: $depends
Suggests: ocl-icd-libopencl1, bash-completion
Section: science
Priority: optional
Description: trains GPT models that are larger than memory
 Parameters, gradients and optimizer states live on NVMe drives; layers stream
 through a fixed amount of memory; the optimizer update runs on computational
 storage devices, emulated ones where there are none.
 .
 The program needs a processor of x86-64-v3 (AVX2, FMA: Intel Haswell, AMD
 Excavator or later).
END
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
chmod 644 "$root/DEBIAN/control" "$root/DEBIAN/md5sums"
dpkg-deb --root-owner-group --build "$root" "$out/sitrain_${version}_$arch.deb" >/dev/null
echo "$out/sitrain_${version}_$arch.deb"
