package e2e_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

// registries is the gate of examples/registries.Caddyfile, with the access log of
// the shipped Caddyfile, in front of real services.
type registries struct {
	*stack.Stack
	npm, docker, files string // addresses of the services
}

// TestRegistries runs real clients of registries and files whose names have
// slashes, and compares what the gate has counted with its access log.
func TestRegistries(t *testing.T) {
	t.Parallel()
	text := exampleWithLog(t, "registries.Caddyfile")
	ports := stack.FreePorts(t, 3)
	r := registries{npm: "127.0.0.1:" + ports[0], docker: "127.0.0.1:" + ports[1], files: "127.0.0.1:" + ports[2]}
	r.Stack = stack.StartGate(t, text, "NPM_UPSTREAM="+r.npm, "DOCKER_UPSTREAM="+r.docker, "FILES_UPSTREAM="+r.files)
	tests := map[string]func(*testing.T, registries, string){"skopeo": skopeo, "rclone": rclone}
	if storetest.Long() {
		tests["npm"] = npm
	}
	counted := map[string]map[string]int64{}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r.Tollgate("account", "set", name, "--plan", "team")
			test(t, r, newKey(t, r.Stack, name, "ci").Token)
			usage := decode[struct {
				Endpoints []struct {
					Endpoint string
					Used     int64
				}
			}](t, r.Tollgate("usage", "show", name, "--json"))
			counted[name] = map[string]int64{}
			for _, e := range usage.Endpoints {
				if e.Used > 0 {
					counted[name][e.Endpoint] = e.Used
				}
			}
		})
	}
	r.StopCaddy()
	logged := map[string]map[string]int64{}
	for _, line := range accessLog(t, r.Stack) {
		if logged[line.Call.Account] == nil {
			logged[line.Call.Account] = map[string]int64{}
		}
		logged[line.Call.Account][line.Call.Endpoint] += line.Call.Cost
	}
	for name := range tests {
		if len(counted[name]) < 2 || !maps.Equal(logged[name], counted[name]) {
			t.Errorf("%s: counted %v, the access log has %v", name, counted[name], logged[name])
		}
	}
}

// need ends a test without a program or module that xcaddy.sh installs. In CI it
// fails.
func need(t *testing.T, what string, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("CI") == "true":
		t.Fatalf("the test needs %s: %v", what, err)
	default:
		t.Skipf("%s is not installed: %v", what, err)
	}
}

// needPrograms ends a test without a program.
func needPrograms(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		_, err := exec.LookPath(program)
		need(t, program, err)
	}
}

// serve starts a service, and waits until it listens.
func serve(t *testing.T, address, program string, arguments ...string) {
	t.Helper()
	var out stack.Output
	command := exec.Command(program, arguments...)
	command.Stdout, command.Stderr = &out, &out
	must(t, command.Start())
	t.Cleanup(func() {
		must(t, command.Process.Kill())
		_ = command.Wait() // it was killed
		if t.Failed() {
			t.Logf("%s wrote:\n%s", program, &out)
		}
	})
	eventually(t, program, func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// runClient runs a client in a directory of its own, and returns what it prints.
func runClient(t *testing.T, dir, program string, arguments ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir, command.Env = dir, append(os.Environ(), "HOME="+dir, "RCLONE_CONFIG="+filepath.Join(dir, "rclone.conf"))
	out, err := command.CombinedOutput()
	return string(out), err
}

// succeeds is runClient for a client that must succeed.
func succeeds(t *testing.T, dir, program string, arguments ...string) string {
	t.Helper()
	out, err := runClient(t, dir, program, arguments...)
	if err != nil {
		t.Errorf("%s: %v\n%s", program, err, out)
	}
	return out
}

// skopeo pushes an image to a Docker registry, with the key as password, and
// pulls it. Without the key it can do neither.
func skopeo(t *testing.T, r registries, token string) {
	needPrograms(t, "skopeo", "docker-registry")
	dir := t.TempDir()
	config := filepath.Join(dir, "registry.yml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: %s\nhttp:\n  addr: %s\n", filepath.Join(dir, "registry"), r.docker), 0o600))
	serve(t, r.docker, "docker-registry", "serve", config)
	digest := writeImage(t, filepath.Join(dir, "image"))
	image := "docker://" + strings.TrimPrefix(r.Address, "http://") + "/team/tools/app:1"
	arguments := []string{"--insecure-policy", "copy", "--src-tls-verify=false", "--dest-tls-verify=false"}
	if out, err := runClient(t, dir, "skopeo", append(arguments, "oci:image:1", image)...); err == nil || !strings.Contains(out, "nauthorized") {
		t.Errorf("without a key: got %v, %s", err, out)
	}
	succeeds(t, dir, "skopeo", append(arguments, "--dest-creds", "key:"+token, "oci:image:1", image)...)
	succeeds(t, dir, "skopeo", append(arguments, "--src-creds", "key:"+token, image, "oci:pulled:1")...)
	if _, err := os.Stat(filepath.Join(dir, "pulled", "blobs", "sha256", digest)); err != nil {
		t.Errorf("the layer was not pulled: %v", err)
	}
}

// writeImage writes an image with one layer as an OCI layout, and returns the
// digest of the layer.
func writeImage(t *testing.T, dir string) (layer string) {
	t.Helper()
	blobs := filepath.Join(dir, "blobs", "sha256")
	must(t, os.MkdirAll(blobs, 0o755))
	type object map[string]any
	blob := func(kind string, content any) object {
		data, isLayer := content.([]byte)
		if !isLayer {
			var err error
			data, err = json.Marshal(content)
			must(t, err)
		}
		digest := fmt.Sprintf("%x", sha256.Sum256(data))
		must(t, os.WriteFile(filepath.Join(blobs, digest), data, 0o600))
		return object{"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + digest, "size": len(data)}
	}
	tar := make([]byte, 10<<10) // without files
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	_, err := writer.Write(tar)
	must(t, errors.Join(err, writer.Close()))
	content := blob("layer.v1.tar+gzip", zipped.Bytes())
	config := blob("config.v1+json", object{"architecture": "amd64", "os": "linux", "config": object{}, "rootfs": object{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(tar))}}})
	manifest := blob("manifest.v1+json", object{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": []object{content}})
	manifest["annotations"] = object{"org.opencontainers.image.ref.name": "1"}
	for file, document := range map[string]object{"oci-layout": {"imageLayoutVersion": "1.0.0"}, "index.json": {"schemaVersion": 2, "manifests": []object{manifest}}} {
		data, err := json.Marshal(document)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, file), data, 0o600))
	}
	return strings.TrimPrefix(content["digest"].(string), "sha256:")
}

// odd are the names of the tests of rclone (fstest/fstests), as they are on a
// disk, and more with characters that mean something in a path.
var odd = []string{
	".leading dot", "trailing dot.", " leading space", "trailing space ", "~leading tilde", "test%46.txt", "!\"#$%&'()*+,-.\uff0f:;<=>?@[\\]^_`{|}~",
	"hello? sausage/êé/Hello, 世界/ \" ' @ < > & ? + ≠/z.txt", "a;b", "a#b", "a?b", "100%", "a\\b", "a%2Fb", "%41%zz", "a+b&c=d",
}

// rclone copies files with odd names over WebDAV, moves, lists, reads and deletes
// them.
func rclone(t *testing.T, r registries, token string) {
	needPrograms(t, "rclone")
	dir := t.TempDir()
	served, local := filepath.Join(dir, "served"), filepath.Join(dir, "local")
	for i, name := range odd {
		for _, file := range []string{filepath.Join(local, name), filepath.Join(local, "in "+name, name)} {
			must(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must(t, os.WriteFile(file, fmt.Append(nil, i), 0o600))
		}
	}
	must(t, os.Mkdir(served, 0o755))
	serve(t, r.files, "rclone", "serve", "webdav", served, "--addr", r.files, "--baseurl", "/files", "--config", filepath.Join(dir, "rclone.conf"))
	run := func(command string, arguments ...string) string {
		t.Helper()
		return succeeds(t, dir, "rclone", append([]string{command, "--retries", "1", "--webdav-url", r.Address + "/files/", "--webdav-bearer-token", token}, arguments...)...)
	}
	if out, err := runClient(t, dir, "rclone", "lsf", "--webdav-url", r.Address+"/files/", ":webdav:"); err == nil || !strings.Contains(out, "401") {
		t.Errorf("without a key: got %v, %s", err, out)
	}
	run("copy", local, ":webdav:first")
	run("move", ":webdav:first", ":webdav:second")
	run("copy", ":webdav:second", filepath.Join(dir, "back"))
	for i, name := range odd {
		for _, file := range []string{name, filepath.Join("in "+name, name)} {
			for _, root := range []string{filepath.Join(served, "second"), filepath.Join(dir, "back")} {
				if got := read(t, filepath.Join(root, file)); got != fmt.Sprint(i) {
					t.Errorf("%s in %s has %q", file, root, got)
				}
			}
		}
	}
	run("purge", ":webdav:second")
	if left, err := os.ReadDir(served); err != nil || len(left) > 0 {
		t.Errorf("the service still has %v (%v)", left, err)
	}
}

// npm publishes a package with a scope, shows it, and installs it. Only the
// commands of the example give npm the key: npm login fails, because it asks
// the registry for a token without one.
func npm(t *testing.T, r registries, token string) {
	modules := npmtest.Install(t, "verdaccio@5.13.1")
	dir := t.TempDir()
	config := filepath.Join(dir, "verdaccio.yaml")
	must(t, os.WriteFile(config, []byte("storage: ./storage\nurl_prefix: /npm/\npackages:\n  '**':\n    access: $all\n    publish: $all\nlog: { type: stdout, level: warn }\n"), 0o600))
	serve(t, r.npm, "node", filepath.Join(modules, "verdaccio", "bin", "verdaccio"), "-c", config, "-l", r.npm)
	folder := func(name, files string) string {
		t.Helper()
		folder := filepath.Join(dir, name)
		must(t, os.Mkdir(folder, 0o755))
		must(t, os.WriteFile(filepath.Join(folder, "package.json"), []byte(files), 0o600))
		return folder
	}
	published, user := folder("published", `{"name": "@types/node", "version": "1.2.3"}`), folder("user", `{"name": "user", "version": "1.0.0"}`)
	registry := r.Address + "/npm/"
	npmLogin(t, user, registry, token)
	if out, err := runClient(t, user, "npm", "view", "@types/node", "--registry", registry); err == nil || !strings.Contains(out, "E401") {
		t.Errorf("without a key: got %v, %s", err, out)
	}
	for _, folder := range []string{published, user} {
		commands := regexp.MustCompile(`(?m)^#\tnpm (config set) (\S+) (\S+)$`).FindAllStringSubmatch(read(t, filepath.Join(stack.Root(), "examples", "registries.Caddyfile")), -1)
		if len(commands) != 2 {
			t.Fatalf("the example has the commands %q", commands)
		}
		address := strings.NewReplacer("https://api.example.com", r.Address, "//api.example.com", strings.TrimPrefix(r.Address, "http:"), "<key>", token, "@acme", "@types")
		for _, command := range commands {
			succeeds(t, folder, "npm", "config", "set", address.Replace(command[2]), address.Replace(command[3]))
		}
	}
	succeeds(t, published, "npm", "publish")
	if out := succeeds(t, user, "npm", "view", "@types/node", "version"); strings.TrimSpace(out) != "1.2.3" {
		t.Errorf("npm view printed %s", out)
	}
	succeeds(t, user, "npm", "install", "--no-audit", "@types/node")
	if text := read(t, filepath.Join(user, "node_modules", "@types", "node", "package.json")); !strings.Contains(text, `"1.2.3"`) {
		t.Errorf("installed %s", text)
	}
}

// npmLogin runs npm login with a key as the password.
func npmLogin(t *testing.T, dir, registry, token string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out stack.Output
	login := exec.CommandContext(ctx, "npm", "login", "--registry", registry)
	login.Dir, login.Env, login.Stdout, login.Stderr = dir, append(os.Environ(), "HOME="+dir), &out, &out
	answers, err := login.StdinPipe()
	must(t, err)
	must(t, login.Start())
	for _, answer := range [][2]string{{"Username:", "ci"}, {"Password:", token}} {
		eventually(t, "npm login to ask", func() error {
			if !strings.Contains(out.String(), answer[0]) {
				return errors.New(out.String())
			}
			return nil
		})
		_, err := fmt.Fprintln(answers, answer[1])
		must(t, err)
	}
	if err := login.Wait(); err == nil || !strings.Contains(out.String(), "E401") {
		t.Errorf("npm login: got %v, %s", err, &out)
	}
}
