//go:build long

package packaging_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestContainer builds the container, starts it, and calls it.
func TestContainer(t *testing.T) {
	t.Parallel()
	need(t, "buildah")
	context := filepath.Dir(packaged(t, "container/Containerfile"))
	dir := t.TempDir()
	buildah := func(args ...string) *exec.Cmd {
		// The isolation chroot needs neither namespaces nor cgroups.
		cmd := exec.CommandContext(t.Context(), "buildah", append([]string{
			"--root", filepath.Join(dir, "storage"), "--runroot", filepath.Join(dir, "run"), "--storage-driver", "vfs",
		}, args...)...)
		cmd.Env = append(cmd.Environ(), "BUILDAH_ISOLATION=chroot", "TMPDIR="+dir)
		return cmd
	}
	output(t, buildah("build", "--quiet", "--format", "docker", "--tag", "tollgate", context))
	inspected := output(t, buildah("inspect", "--type", "image", "--format", "{{.Docker.Config.User}} {{.Docker.Config.Healthcheck.Test}}", "tollgate"))
	if want := "65532:65532 [CMD /usr/bin/caddy tollgate health]"; strings.TrimSpace(inspected) != want {
		t.Errorf("the image has the user and health check %q, want %q", inspected, want)
	}
	name := strings.TrimSpace(output(t, buildah("from", "--pull=never", "tollgate")))

	ports := stack.FreePorts(t, 3)
	address := "http://127.0.0.1:" + ports[0]
	settings := []string{
		"TOLLGATE_ADDRESS=" + address, "TOLLGATE_CONTROL=127.0.0.1:" + ports[1], "CADDY_ADMIN=127.0.0.1:" + ports[2],
		"TOLLGATE_SECRET=" + stack.Secret, "TOLLGATE_RATES=embedded",
	}
	inside := func(args ...string) *exec.Cmd {
		line := []string{"run"}
		for _, setting := range settings {
			line = append(line, "--env", setting)
		}
		return buildah(append(append(line, name, "--", "/usr/bin/caddy"), args...)...)
	}
	gate := inside("run", "--config", "/etc/tollgate/Caddyfile", "--adapter", "caddyfile")
	run(t, gate)
	await(t, address+"/healthz")
	add := inside("upstream", "account", "add", "--email", "a@example.com", "--plan", "starter")
	add.Stdin = strings.NewReader("a password of a test\n")
	output(t, add)
	logInAndCall(t, address, "a@example.com", "a password of a test")
	output(t, inside("tollgate", "health"))
	output(t, inside("stop"))
	if err := gate.Wait(); err != nil {
		t.Errorf("the container ends with %v", err)
	}
	if err := inside("tollgate", "health").Run(); err == nil {
		t.Error("the health check succeeds without a gate")
	}
}
