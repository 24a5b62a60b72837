package storetest

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Ext4 is an ext4 file system that a test can break and repair. It is in a
// sparse file on a tmpfs, on a loop device.
type Ext4 struct {
	// Dir is where the file system is mounted.
	Dir string

	backing string // the tmpfs
	image   string
}

// backingSize is the size of the tmpfs, in bytes. It has space for the data and
// for the journal of the file system.
const backingSize = diskSize + 64<<20

// NewExt4 mounts an Ext4 until the test ends. See NeedExt4.
func NewExt4(t *testing.T) *Ext4 {
	t.Helper()
	NeedExt4(t)
	backing := t.TempDir()
	d := &Ext4{Dir: t.TempDir(), backing: backing, image: filepath.Join(backing, "image")}
	if err := resize(backing, backingSize, 0); err != nil {
		t.Fatalf("mounting the tmpfs: %v", err)
	}
	t.Cleanup(func() { Unmount(t, backing) })
	if err := errors.Join(os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, diskSize)); err != nil {
		t.Fatal(err)
	}
	d.run(t, 0, "mkfs.ext4", "-q", "-F", d.image)
	d.mount(t)
	t.Cleanup(func() {
		Unmount(t, d.Dir)
		d.awaitDetached(t) // the image keeps the tmpfs busy
	})
	return d
}

// NeedExt4 skips a test that mounts an ext4 file system from a loop device, which
// requires root and a kernel that can.
func NeedExt4(t *testing.T) {
	t.Helper()
	NeedRoot(t)
	if missing := kernelLacks(); missing != "" {
		t.Skipf("this kernel has no %s", missing)
	}
}

// kernelLacks names a feature that the kernel lacks for an Ext4, or is empty.
func kernelLacks() string {
	systems, err := os.ReadFile("/proc/filesystems")
	if err == nil && !strings.Contains(string(systems), "\text4\n") && exec.Command("modprobe", "ext4").Run() != nil {
		return "ext4"
	}
	if _, err := os.Stat("/dev/loop-control"); errors.Is(err, fs.ErrNotExist) {
		return "loop devices"
	}
	return ""
}

// Abort makes the file system read-only, as an error of its own would.
func (d *Ext4) Abort(t *testing.T) {
	t.Helper()
	d.run(t, 0, "mount", "-o", "remount,abort", d.Dir)
}

// StopWrites makes every write of a new block fail. Reads still work.
func (d *Ext4) StopWrites(t *testing.T) {
	t.Helper()
	if err := shrink(d.backing, 0); err != nil {
		t.Fatalf("stopping writes: %v", err)
	}
}

// Repair makes the device work again, and checks and remounts the file
// system. No process may use it.
func (d *Ext4) Repair(t *testing.T) {
	t.Helper()
	if err := resize(d.backing, backingSize, unix.MS_REMOUNT); err != nil {
		t.Fatalf("allowing writes: %v", err)
	}
	Unmount(t, d.Dir)
	d.awaitDetached(t)
	d.run(t, 1, "e2fsck", "-f", "-y", d.image) // 1: errors were corrected
	d.mount(t)
}

// awaitDetached waits until no loop device has the image. A process that made
// a mount namespace, such as buildah, has a copy of every mount until it ends.
// While there is one, mounting the image again gives the broken file system.
func (d *Ext4) awaitDetached(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); d.attached(t); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is still mounted in another mount namespace", d.image)
		}
	}
}

// attached tells whether a loop device has the image.
func (d *Ext4) attached(t *testing.T) bool {
	t.Helper()
	devices, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range devices {
		file, err := os.ReadFile(device) // it is gone once the device is detached
		if err == nil && strings.TrimSpace(string(file)) == d.image {
			return true
		}
	}
	return false
}

func (d *Ext4) mount(t *testing.T) {
	t.Helper()
	d.run(t, 0, "mount", "-o", "loop", d.image, d.Dir)
}

// run runs a program and fails the test if its exit code is above most.
func (d *Ext4) run(t *testing.T, most int, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	out, err := cmd.CombinedOutput()
	if err != nil && (cmd.ProcessState == nil || cmd.ProcessState.ExitCode() < 0 || cmd.ProcessState.ExitCode() > most) {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// Unmount waits until a process that was just killed has ended.
func Unmount(t *testing.T, dir string) {
	t.Helper()
	err := unix.Unmount(dir, 0)
	for again := 0; again < 200 && errors.Is(err, unix.EBUSY); again++ {
		time.Sleep(20 * time.Millisecond)
		err = unix.Unmount(dir, 0)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: it is not mounted
		t.Errorf("unmounting: %v", err)
	}
}
