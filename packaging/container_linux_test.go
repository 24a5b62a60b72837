//go:build long

package packaging_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// manifests reads the documents of a YAML file into a value.
func manifests(t *testing.T, file string, into any) {
	t.Helper()
	text := do(t, "python3", "-c", "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))", file)
	must(t, json.Unmarshal([]byte(text), into))
}

// probe is a health check of Kubernetes.
type probe struct {
	HTTPGet struct{ Path, Port string }
}

// orchestrated is what compose.yml and kubernetes.yml say about the container.
type orchestrated struct {
	env, mounts []string
	user        int
	// probes are those of Kubernetes, and health is their port.
	probes []probe
	health int
}

// readManifests reads compose.yml and kubernetes.yml, which must agree.
func readManifests(t *testing.T) (o orchestrated) {
	t.Helper()
	check := exec.CommandContext(t.Context(), "docker-compose", "--file", "compose.yml", "config", "--quiet")
	check.Env = append(check.Environ(), "TOLLGATE_SECRET="+stack.Secret)
	output(t, check)
	var compose []struct {
		Services map[string]struct {
			Build       string
			Environment map[string]string
			Volumes     []string
		}
	}
	manifests(t, "compose.yml", &compose)
	service := compose[0].Services["tollgate"]
	if context, err := filepath.Abs(service.Build); err != nil || context != filepath.Join(dist, "container") {
		t.Errorf("compose.yml builds %s (%v), want dist/container", context, err)
	}
	for _, volume := range service.Volumes {
		_, mount, _ := strings.Cut(volume, ":")
		o.mounts = append(o.mounts, mount)
	}
	var cluster []struct {
		Kind string
		Spec struct {
			Ports    []struct{ Port int }
			Template struct {
				Spec struct {
					SecurityContext struct{ RunAsUser int }
					Containers      []struct {
						Env   []struct{ Name, Value string }
						Ports []struct {
							Name          string
							ContainerPort int
						}
						VolumeMounts                                []struct{ MountPath string }
						StartupProbe, ReadinessProbe, LivenessProbe probe
					}
				}
			}
		}
	}
	manifests(t, "kubernetes.yml", &cluster)
	pod := cluster[1].Spec.Template.Spec
	container := pod.Containers[0]
	o.user = pod.SecurityContext.RunAsUser
	o.probes = []probe{container.StartupProbe, container.ReadinessProbe, container.LivenessProbe}
	for _, port := range container.Ports {
		if port.Name == "health" {
			o.health = port.ContainerPort
		}
	}
	var mounts []string
	for _, mount := range container.VolumeMounts {
		mounts = append(mounts, mount.MountPath)
	}
	for _, variable := range container.Env {
		o.env = append(o.env, variable.Name)
		if port := fmt.Sprint(":", cluster[0].Spec.Ports[0].Port); variable.Name == "TOLLGATE_ADDRESS" && !strings.HasSuffix(variable.Value, port) {
			t.Errorf("the address of kubernetes.yml is %s, and its service has the port %s", variable.Value, port)
		}
	}
	if env := slices.Sorted(maps.Keys(service.Environment)); !slices.Equal(env, o.env) || !slices.Equal(mounts, o.mounts) {
		t.Errorf("compose.yml has the variables %q and mounts %q, kubernetes.yml %q and %q", env, o.mounts, o.env, mounts)
	}
	return o
}

// TestContainer builds the container, starts it, and calls it, and does what
// compose.yml and kubernetes.yml expect of it.
func TestContainer(t *testing.T) {
	t.Parallel()
	need(t, "buildah", "docker-compose", "python3")
	context := filepath.Dir(packaged(t, "container/Containerfile"))
	want := readManifests(t)
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
	if want := fmt.Sprintf("%d:%[1]d [CMD /usr/bin/caddy tollgate health]", want.user); strings.TrimSpace(inspected) != want {
		t.Errorf("the image has the user and health check %q, want %q", inspected, want)
	}
	name := strings.TrimSpace(output(t, buildah("from", "--pull=never", "tollgate")))

	ports := stack.FreePorts(t, 4)
	shipped, err := os.ReadFile(filepath.Join(context, "Caddyfile"))
	must(t, err)
	health := fmt.Sprintf("http://:%d ", want.health)
	for _, text := range append(want.env, health) {
		if !strings.Contains(string(shipped), text) {
			t.Errorf("the Caddyfile of the container has no %s", text)
		}
	}
	caddyfile := filepath.Join(dir, "Caddyfile")
	must(t, os.WriteFile(caddyfile, []byte(strings.Replace(string(shipped), health, "http://:"+ports[3]+" ", 1)), 0o644))
	output(t, buildah("copy", "--quiet", name, caddyfile, "/etc/tollgate/Caddyfile"))
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
	for _, probe := range want.probes {
		if probe.HTTPGet.Port != "health" {
			t.Errorf("the probe %+v has another port than health", probe)
		}
		// kubelet does not call 127.0.0.1.
		await(t, "http://127.0.0.2:"+ports[3]+probe.HTTPGet.Path)
	}
	if status, body := call(t, http.MethodGet, "http://127.0.0.2:"+ports[3]+"/tollgate/plans", "", ""); status != http.StatusNotFound {
		t.Errorf("the port of the probes answers %d %s to other requests, want 404", status, body)
	}
	for _, mount := range want.mounts {
		output(t, inside("tollgate", "backup", mount+"/gate-2026-11-20.backup", "--keep", "14"))
	}
	output(t, inside("upstream", "backup", "/backup/accounts-2026-11-20.db"))
	output(t, inside("stop"))
	if err := gate.Wait(); err != nil {
		t.Errorf("the container ends with %v", err)
	}
	if err := inside("tollgate", "health").Run(); err == nil {
		t.Error("the health check succeeds without a gate")
	}
	mounted(t, dir, buildah)
}

// mounted runs the file of the README with the command of docs/operations.md,
// and calls a service with a new key. The volume is that of the image.
func mounted(t *testing.T, dir string, buildah func(args ...string) *exec.Cmd) {
	t.Helper()
	name := strings.TrimSpace(output(t, buildah("from", "--pull=never", "tollgate")))
	printed := output(t, buildah("run", name, "--", "/usr/bin/caddy", "tollgate", "key", "new", "--name", "ci"))
	token, line := regexp.MustCompile(`tgk_\w+`).FindString(printed), regexp.MustCompile(`key ci sha256:\w+`).FindString(printed)
	page, err := os.ReadFile(filepath.Join(stack.Root(), "README.md"))
	must(t, err)
	_, text, _ := strings.Cut(string(page), "```caddyfile\n")
	text, _, _ = strings.Cut(text, "```")
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("Tollgate-Account")) }))
	t.Cleanup(service.Close)
	ports := stack.FreePorts(t, 2)
	text = strings.NewReplacer("\ttollgate {", "\tadmin 127.0.0.1:"+ports[0]+"\n\ttollgate {", ":8080", ":"+ports[1],
		"127.0.0.1:3000", service.Listener.Addr().String()).Replace(regexp.MustCompile("key ci .*").ReplaceAllString(text, line))
	must(t, os.WriteFile(filepath.Join(dir, "gate.Caddyfile"), []byte(text), 0o644))

	page, err = os.ReadFile(filepath.Join(stack.Root(), "docs", "operations.md"))
	must(t, err)
	_, options, found := strings.Cut(string(page), "\npodman run --network host ")
	options, _, ends := strings.Cut(options, " --volume tollgate:/data tollgate\n")
	if !found || !ends {
		t.Fatal("docs/operations.md has no command that mounts a file")
	}
	options = strings.NewReplacer("TOLLGATE_SECRET", "TOLLGATE_SECRET="+strings.Repeat("a1b2c3d4", 8), "$PWD", dir).Replace(options)
	gate := buildah(append(append([]string{"run"}, strings.Fields(options)...), name, "--", "/usr/bin/caddy", "run", "--config", "/etc/tollgate/Caddyfile", "--adapter", "caddyfile")...)
	run(t, gate)
	await(t, "http://127.0.0.1:"+ports[0]+"/tollgate/health/ready")
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if status, body := call(t, http.MethodGet, "http://127.0.0.1:"+ports[1]+"/v1/items", token, ""); status != want || status == http.StatusOK && body != "acme" {
			t.Errorf("call %d in the container answers %d %s, want %d", i+1, status, body, want)
		}
	}
	call(t, http.MethodPost, "http://127.0.0.1:"+ports[0]+"/stop", "", "")
	if err := gate.Wait(); err != nil {
		t.Errorf("the container ends with %v", err)
	}
}
