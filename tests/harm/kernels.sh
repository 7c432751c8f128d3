#!/usr/bin/env bash
# The harm programs on other kernels, each booted by qemu (software emulation, no KVM needed):
#
#   tests/harm/kernels.sh GPUSCOPE VMLINUZ...
#
# Needs qemu-system-x86_64, a static busybox and g++. The kernel gets an initramfs of the programs and the
# libraries that they need, runs each without and with probes, and says what differs. Then it loads the
# programs of every layer and of job. Ends with status 1 when anything differs, or the kernel refuses a
# program. Some 5 minutes a kernel on two processors. Debian has kernels as packages, of other releases
# too (CONTRIBUTING.md): apt-get download linux-image-6.1.0-50-cloud-amd64, dpkg -x.
set -eu
[ $# -ge 2 ] || { sed -n '2,11p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
gpuscope=$(realpath "$1")
shift
for tool in qemu-system-x86_64 busybox cpio g++; do
	command -v $tool >/dev/null || { echo "kernels.sh: needs $tool (Debian: qemu-system-x86 busybox-static cpio g++)"; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,tmp,harm}

flags=(-O2 -fno-omit-frame-pointer -pthread)
g++ "${flags[@]}" -o "$root/harm/harm" "$here/harm.cc"
gcc -O2 -fexceptions -fno-optimize-sibling-calls -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$root/harm/libcuda.so.1" "$here/driver.c"
g++ "${flags[@]}" -o "$root/harm/unwound" "$here/unwound.cc" "$root/harm/libcuda.so.1"
gcc -O2 -fexceptions -fno-optimize-sibling-calls -pthread -shared -fPIC -Wl,-soname,libcudart.so.13 \
	-o "$root/harm/libcudart.so.13" "$here/runtime.c" "$root/harm/libcuda.so.1"
g++ "${flags[@]}" -o "$root/harm/first" "$here/first.cc" "$root/harm/libcudart.so.13" "$root/harm/libcuda.so.1"
gcc -O2 -fPIC -c -o "$work/through_c.o" "$here/through_c.c"
g++ -O2 -fPIC -shared -Wl,-soname,libthrough.so -o "$root/harm/libthrough.so" "$here/through_cpp.cc" "$work/through_c.o"
g++ "${flags[@]}" -o "$root/harm/through" "$here/through.cc" "$root/harm/libthrough.so"
cp "$gpuscope" "$root/harm/gpuscope"
cp "$(command -v busybox)" "$root/bin/busybox"
libgcc=$(gcc -print-file-name=libgcc_s.so.1)
for library in $({ ldd "$gpuscope" "$root/harm/harm" || true; echo "x => $(realpath "$libgcc")"; } |
	grep -o '/[^ :]*' | grep -v "^$work" | sort -u); do
	if [ ! -f "$library" ] || [ "$library" = "$gpuscope" ]; then continue; fi
	mkdir -p "$root$(dirname "$library")"
	cp -L "$library" "$root$library"
done
# The threads of glibc look for it by its name when they are cancelled.
mkdir -p "$root/lib/x86_64-linux-gnu"
cp -L "$libgcc" "$root/lib/x86_64-linux-gnu/libgcc_s.so.1"

cat >"$root/harm/probes.yaml" <<'END'
probes:
  - {lib: /harm/harm, function: 'k_*', return: true}
END
cat >"$root/init" <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin LD_LIBRARY_PATH=/harm HOME=/
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
ip link set lo up 2>/dev/null
cd /harm
status=0
# The verifiers of older kernels know less: a program that they refuse is not always an error of the command.
loaded() {
	if grep 'the kernel refused' /tmp/err; then echo "HARM: $1: refused"; status=1; fi
}
loads() {
	what=$1; shift
	if timeout 900 /harm/gpuscope "$@" >/dev/null 2>/tmp/err; then echo "loaded: $what"; else
		echo "HARM: $what: gpuscope ended with $?"; tail -5 /tmp/err; status=1
	fi
	loaded "$what"
}
compare() {
	what=$1; shift
	if timeout 600 /harm/gpuscope trace -v -q --summary /tmp/summary "$@" >/tmp/traced 2>/tmp/err; then :; else
		echo "HARM: $what: gpuscope ended with $?"; cat /tmp/err; status=1
	fi
	if diff /tmp/untraced /tmp/traced >/tmp/diff; then
		echo "same: $what ($(wc -l </tmp/untraced) results)"
	else
		echo "HARM: $what"; head -20 /tmp/diff; status=1
	fi
	grep -E 'self-test|cannot be restored|links' /tmp/err | head -4
	loaded "$what"
	sed -n '/^Could not attach/,/^$/p' /tmp/summary | head -12
}
echo "kernel $(uname -r)"
/harm/harm >/tmp/untraced
compare "functions, entries and returns" --layer user --probes /harm/probes.yaml -- /harm/harm
sed 's/, return: true//' /harm/probes.yaml >/tmp/entries.yaml
compare "functions, entries" --layer user --probes /tmp/entries.yaml -- /harm/harm
/harm/unwound >/tmp/untraced
compare "cancelled threads and throwing callbacks" -- /harm/unwound
compare "the same, single links" --disable-feature session,multi --func 'cuLaunch*' --func 'cu*Synchronize' --func 'cuMemcpyDtoH*' --func 'cuStreamAdd*' -- /harm/unwound
/harm/first >/tmp/untraced
compare "first calls" -- /harm/first
/harm/through >/tmp/untraced
cat >/tmp/through.yaml <<'YAML'
probes:
  - {lib: /harm/libthrough.so, function: 'through_*', args: ['arg2: i64 n', 'ret: i64 got'], filter: got > n}
YAML
compare "callbacks that throw through functions whose result is read" --layer user --probes /tmp/through.yaml -- /harm/through
sed -i "s/, 'ret: i64 got'.*/], filter: duration >= 0ns}/" /tmp/through.yaml
compare "the same, where their code leaves them" --layer user --disable-feature session,multi --probes /tmp/through.yaml -- /harm/through
loads "programs of every layer" trace -v -q --summary /tmp/summary -o /tmp/all.gst --layer cuda,nccl,mpi,torch,python \
	--python-calls='f*' --python-gc --python-gil --python-hz 99 --stacks native -- /bin/busybox true
loads "programs of a limit" trace -v -q --summary /tmp/summary --max-overhead 5% -- /bin/busybox true
loads "programs of job" job -v -p 1 --duration 1
# Two requests to its own server, of which the second sees the first.
printf 'http:\n  listen: "127.0.0.1:14780"\ncontrol:\n  path: ""\ntraffic:\n  enabled: true\n' >/tmp/agent.yaml
/harm/gpuscope agent -v -c /tmp/agent.yaml >/dev/null 2>/tmp/err &
agent=$!
for i in $(seq 300); do wget -q -O - http://127.0.0.1:14780/api/v1/traffic >/tmp/first 2>/dev/null && break; sleep 0.1; done
wget -q -O - http://127.0.0.1:14780/api/v1/traffic >/tmp/second
kill $agent
if grep -q '"side":"server","port":14780,"peer":"127.0.0.1"' /tmp/second && grep -q '"side":"client","port":14780,"peer":"127.0.0.1"' /tmp/second; then
	echo "loaded: programs of traffic"
else
	echo "HARM: programs of traffic: no connections"; cat /tmp/second; status=1
fi
grep 'traffic' /tmp/err
loaded "programs of traffic"
echo "harm status $status"
poweroff -f
END
chmod +x "$root/init"
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initrd"

failed=0
for kernel; do
	# Both processors in one thread: with one thread each, what the emulation of one has translated of the
	# kernel's code is at times executed after the other has patched it ("Oops: int3" at a tracepoint that is
	# switched on). Level 2: the last words of a kernel that ends so are seen.
	timeout 2400 qemu-system-x86_64 -M pc -accel tcg,thread=single -cpu max -m 1536 -smp 2 -kernel "$kernel" \
		-initrd "$work/initrd" -append "console=ttyS0 panic=-1 quiet loglevel=2" -nographic -no-reboot -nic none </dev/null |
		tr -d '\r' | tee "$work/log" | sed -n '/kernel [0-9]/,$p'
	grep -q '^harm status 0' "$work/log" || failed=1
done
exit $failed
