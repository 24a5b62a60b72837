//go:build long

package packaging_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// root is a small Debian in a directory of its own.
type root string

// tools are the programs that the scripts of the package and the services
// call, and their paths in a Debian.
var tools = []string{
	"/bin/sh", "/usr/bin/cat", "/usr/bin/chgrp", "/usr/bin/chmod", "/usr/bin/date", "/usr/bin/getent", "/usr/bin/id", "/usr/bin/install",
	"/usr/bin/mv", "/usr/bin/od", "/usr/bin/rm", "/usr/bin/rmdir", "/usr/bin/sed", "/usr/bin/setpriv", "/usr/bin/stat", "/usr/bin/tr",
	"/usr/sbin/useradd",
}

// library matches a library in the output of ldd.
var library = regexp.MustCompile(`(?m)(/\S+) \(0x`)

// newRoot copies the tools of this machine and what they load into a new
// root.
func newRoot(t *testing.T) root {
	t.Helper()
	r := root(t.TempDir())
	must(t, os.Chmod(string(r), 0o755))
	for _, dir := range []string{"dev", "etc", "tmp", "run", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		must(t, os.MkdirAll(r.path(dir), 0o755))
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		must(t, os.Symlink("usr/"+dir, r.path(dir)))
	}
	// getent and useradd load these by themselves.
	files := slices.Clone(tools)
	for _, pattern := range []string{"/lib/*/libnss_files.so.2", "/lib/*/libnss_compat.so.2"} {
		found, _ := filepath.Glob(pattern)
		files = append(files, found...)
	}
	for _, tool := range tools {
		for _, match := range library.FindAllStringSubmatch(do(t, "ldd", tool), -1) {
			files = append(files, match[1])
		}
	}
	slices.Sort(files)
	for _, file := range slices.Compact(files) {
		r.copy(t, file)
	}
	for device, minor := range map[string]int{"null": 3, "urandom": 9} {
		must(t, syscall.Mknod(r.path("dev", device), syscall.S_IFCHR|0o666, 1<<8|minor))
		must(t, os.Chmod(r.path("dev", device), 0o666))
	}
	r.write(t, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
	r.write(t, "etc/group", "root:x:0:\n")
	r.write(t, "etc/nsswitch.conf", "passwd: files\ngroup: files\n")
	// dpkg checks the dependency of the package with it.
	r.write(t, "var/lib/dpkg/status", do(t, "dpkg-query", "-s", "passwd"))
	return r
}

func (r root) path(elements ...string) string {
	return filepath.Join(append([]string{string(r)}, elements...)...)
}

func (r root) copy(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	must(t, err)
	must(t, os.MkdirAll(r.path(filepath.Dir(file)), 0o755))
	must(t, os.WriteFile(r.path(file), data, 0o755))
}

func (r root) read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(r.path(file))
	must(t, err)
	return string(data)
}

func (r root) write(t *testing.T, file, text string) {
	t.Helper()
	must(t, os.WriteFile(r.path(file), []byte(text), 0o644))
}

// mode returns the mode of a file, and the name of its group.
func (r root) mode(t *testing.T, file string) (fs.FileMode, string) {
	t.Helper()
	info, err := os.Stat(r.path(file))
	must(t, err)
	gid := strconv.FormatUint(uint64(info.Sys().(*syscall.Stat_t).Gid), 10)
	return info.Mode().Perm(), r.entry(t, "etc/group", 2, gid)[0]
}

// files lists all files and directories but those of dpkg and useradd.
func (r root) files(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(string(r), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, string(r))
		switch name {
		case "/var/lib/dpkg":
			return fs.SkipDir
		case "/etc/passwd-", "/etc/group-", "/etc/shadow", "/etc/gshadow", "/etc/subuid", "/etc/subgid", "/etc/.pwd.lock":
			return nil
		}
		all = append(all, name)
		return nil
	})
	must(t, err)
	return all
}

// dpkg installs and removes packages in the root.
func (r root) dpkg(t *testing.T, args ...string) string {
	t.Helper()
	return do(t, "dpkg", append([]string{"--root=" + string(r)}, args...)...)
}

// entry returns the fields of a line of /etc/passwd or /etc/group whose field
// has this value.
func (r root) entry(t *testing.T, file string, field int, value string) []string {
	t.Helper()
	for line := range strings.Lines(r.read(t, file)) {
		if fields := strings.Split(line, ":"); len(fields) > field && fields[field] == value {
			return fields
		}
	}
	t.Fatalf("%s has no %q", file, value)
	return nil
}

// command is a command in the root, as root or as another user.
func (r root) command(t *testing.T, user, line string, env ...string) *exec.Cmd {
	t.Helper()
	words := strings.Fields(line)
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Dir, cmd.Env = "/", append([]string{"PATH=/usr/sbin:/usr/bin"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: string(r)}
	if user != "root" {
		entry := r.entry(t, "etc/passwd", 0, user)
		uid, err := strconv.ParseUint(entry[2], 10, 32)
		must(t, err)
		gid, err := strconv.ParseUint(entry[3], 10, 32)
		must(t, err)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return cmd
}
