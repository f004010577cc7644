package tests

import (
	"archive/zip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// versionOf returns the version of rlproxy: that of the newest section of CHANGELOG.md.
func versionOf(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../CHANGELOG.md")
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^## (0\.\d+\.\d+)`).FindStringSubmatch(string(b))
	require.NotNil(t, m)
	return m[1]
}

// TestVersionIsTheSameEverywhere compares INFO, COMMAND DOCS and the documents with the
// newest version in CHANGELOG.md. TestHelpAndVersionArePrinted does so with --version.
func TestVersionIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	version := versionOf(t)
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	require.Equal(t, []string{"version " + version}, regexp.MustCompile(`version \d+\.\d+\.\d+`).FindAllString(string(readme), -1))
	changes, err := os.ReadFile("../CHANGELOG.md")
	require.NoError(t, err)

	p := startProxy(t)
	c := dial(t, p.addr)
	require.Contains(t, c.do(t, "INFO", "server"), "\r\nrlproxy_version:"+version+"\r\n")
	commands := 0
	docs := c.do(t, "COMMAND", "DOCS").([]any)
	for i := 0; i < len(docs); i += 2 {
		doc := fields(t, docs[i+1])
		if doc["group"] == "ratelimit" {
			commands++
			require.Contains(t, string(changes), fmt.Sprintf("\n## %s", doc["since"]), "%s is of a version that CHANGELOG.md does not have", docs[i])
		}
	}
	require.GreaterOrEqual(t, commands, 7)
	p.stop(t)
}

// TestGoInstallReportsTheVersion installs a version of this working copy from a module proxy
// that consists of files, as go install does from the network.
func TestGoInstallReportsTheVersion(t *testing.T) {
	t.Parallel()
	const module = "github.com/rlproxy/rlproxy"
	version := "v" + versionOf(t)
	source, target := t.TempDir(), t.TempDir()
	at := filepath.Join(source, module, "@v")
	require.NoError(t, os.MkdirAll(at, 0o700))
	mod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	for name, content := range map[string]string{
		"list": version + "\n", version + ".info": `{"Version":"` + version + `"}`, version + ".mod": string(mod),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(at, name), []byte(content), 0o600))
	}
	f, err := os.Create(filepath.Join(at, version+".zip"))
	require.NoError(t, err)
	z := zip.NewWriter(f)
	for _, folder := range []string{"cmd", "commands", "engine", "internal", "lua", "policy", "resp", "rls", "shard", "web"} {
		require.NoError(t, filepath.WalkDir("../"+folder, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.Contains(path, "/testdata/") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			return addFile(z, module+"@"+version+strings.TrimPrefix(path, ".."), path)
		}))
	}
	require.NoError(t, addFile(z, module+"@"+version+"/go.mod", "../go.mod"))
	require.NoError(t, addFile(z, module+"@"+version+"/go.sum", "../go.sum"))
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())

	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	require.NoError(t, err)
	dependencies := filepath.Join(strings.TrimSpace(string(cache)), "cache", "download")
	cmd := exec.Command("go", "install", module+"/cmd/rlproxy@latest")
	cmd.Dir = target
	cmd.Env = append(os.Environ(), "GOBIN="+target, "GOMODCACHE="+filepath.Join(target, "mod"), "GOFLAGS=-modcacherw -trimpath", // shares compiled dependencies with staticBinary

		"GOPROXY=file://"+source+",file://"+dependencies, "GOSUMDB=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	said, err := exec.Command(filepath.Join(target, "rlproxy"), "--version").Output() // #nosec G204 -- the test's own program
	require.NoError(t, err)
	require.Regexp(t, `^rlproxy `+version[1:]+` \(`+version+`, go`, string(said))
}

// addFile adds a file to an archive.
func addFile(z *zip.Writer, name, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	w, err := z.Create(name)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}
