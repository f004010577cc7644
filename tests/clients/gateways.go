package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// gateway is one that asks rlproxy over HTTP, by its recipe in docs/gateways.md.
type gateway struct {
	name    string
	version []string // command line that prints its version
	listens string   // what the recipe says of the port
	on      string   // what replaces that; %d is the port
	asks    int      // the recipe's port of rlproxy
	at      string   // how the recipe writes a port of this machine

	// run returns the command line that runs the recipe's files, by name, in a folder. nil: Traefik, whose
	// requests the trial makes itself.
	run func(dir string, files map[string]string) []string
}

var gateways = []gateway{
	{"nginx", []string{"/usr/sbin/nginx", "-v"}, "listen 80;", "listen 127.0.0.1:%d;", 6381, "127.0.0.1:%d", runNginx},
	{"Caddy", []string{"/usr/bin/caddy", "version"}, ":80 {", ":%d {\n\tbind 127.0.0.1", 6381, "127.0.0.1:%d", runCaddy},
	{"HAProxy", []string{"/usr/sbin/haproxy", "-v"}, "bind :80", "bind 127.0.0.1:%d", 6381, "127.0.0.1:%d", runHAProxy},
	{"Traefik", nil, "", "", 6381, "127.0.0.1:%d", nil},
	{
		"Envoy", []string{envoyBinary, "--version"}, "{address: 0.0.0.0, port_value: 80}", "{address: 127.0.0.1, port_value: %d}",
		6382, "{address: 127.0.0.1, port_value: %d}", runEnvoy,
	},
	{name: likenessName},
}

func runNginx(dir string, files map[string]string) []string {
	temporary := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temporary += fmt.Sprintf("%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	files["nginx.conf"] = "daemon off;\npid nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n" + temporary +
		files["nginx.conf"] + "}\n"
	return []string{"/usr/sbin/nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr"}
}

func runCaddy(dir string, files map[string]string) []string {
	files["Caddyfile"] = "{\n\tauto_https off\n\tadmin off\n}\n" + files["Caddyfile"]
	return []string{"/usr/bin/env", "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "/usr/bin/caddy", "run",
		"--config", filepath.Join(dir, "Caddyfile"), "--adapter", "caddyfile"}
}

func runHAProxy(dir string, files map[string]string) []string {
	files["haproxy.cfg"] = strings.Replace(files["haproxy.cfg"], "/etc/haproxy/limit.lua", filepath.Join(dir, "limit.lua"), 1)
	return []string{"/usr/sbin/haproxy", "-db", "-f", filepath.Join(dir, "haproxy.cfg")}
}

const gatewayLimit = 3

// crossing is one trial of a gateway.
type crossing struct {
	gateway
	release string // its version
	err     error
}

func (c *crossing) run() {
	trial := c.cross
	if c.name == likenessName {
		c.release, trial = originalVersion(), alike
	}
	if c.err = trial(); c.err != nil {
		fmt.Printf("FAIL gateway-%s: %v\n", c.name, c.err)
		return
	}
	fmt.Printf("ok   gateway-%s %s\n", c.name, c.release)
}

var release = regexp.MustCompile(`\d+\.\d+\.\d+`)

// recipe returns the indented blocks of a gateway's section of docs/gateways.md, by the name of the file that the line
// before each of them says in backticks.
func (g gateway) recipe() (map[string]string, error) {
	page, err := os.ReadFile("docs/gateways.md")
	if err != nil {
		return nil, err
	}
	_, section, found := strings.Cut(string(page), "\n### "+g.name+"\n")
	if !found {
		return nil, errors.New("docs/gateways.md has no such section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	section, _, _ = strings.Cut(section, "\n### ")
	files, name, file := make(map[string]string), "", regexp.MustCompile("In `([^`]+)`|in `([^`]+)`")
	for line := range strings.Lines(section) {
		if m := file.FindStringSubmatch(line); m != nil {
			name = m[1] + m[2]
		}
		if text, ok := strings.CutPrefix(line, "    "); ok || line == "\n" && files[name] != "" {
			files[name] += text
			if !ok {
				files[name] += "\n"
			}
		} else if line != "\n" && files[name] != "" {
			name = ""
		}
	}
	delete(files, "")
	return files, nil
}

// replace replaces a text of a recipe that must be there.
func replace(files map[string]string, old, with string) error {
	found := false
	for name, text := range files {
		found = found || strings.Contains(text, old)
		files[name] = strings.ReplaceAll(text, old, with)
	}
	if !found {
		return fmt.Errorf("the recipe has no %q", old)
	}
	return nil
}

// cross starts rlproxy, an application and the gateway between a visitor and both, and makes the visitor's requests.
func (c *crossing) cross() (err error) {
	files, err := c.recipe()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // #nosec G302 -- its workers are other users
		return err
	}
	var ports [2]int
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return err
		}
	}
	check, at := fmt.Sprintf(c.at, ports[0]), fmt.Sprint("127.0.0.1:", ports[1])
	asked, err := c.settings(dir, files, ports[0])
	if err != nil {
		return err
	}
	proxy, err := startProxy(asked...)
	if err != nil {
		return err
	}
	defer func() { _ = proxy.stop() }() // a second time if nothing failed
	app := &application{}
	if err := app.listen(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, app.server.Close()) }()
	if err := replace(files, fmt.Sprintf(c.at, c.asks), check); err != nil {
		return err
	}
	exited := make(chan struct{})
	var log logBuffer
	if c.gateway.run == nil {
		traefik, err := newTraefik(files, app.address)
		if err != nil {
			return err
		}
		defer func() { _ = traefik.server.Close() }()
		at = traefik.address
	} else {
		for old, with := range map[string]string{
			fmt.Sprintf(c.at, 8080): fmt.Sprintf(c.at, app.port), c.listens: fmt.Sprintf(c.on, ports[1]),
		} {
			if err := replace(files, old, with); err != nil {
				return err
			}
		}
		said, err := exec.Command(c.version[0], c.version[1:]...).CombinedOutput() // #nosec G204 -- from the table above
		if err != nil {
			return err
		}
		c.release = release.FindString(string(said))
		argv := c.gateway.run(dir, files)
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { // #nosec G306 -- as above
				return err
			}
		}
		cmd := exec.Command(argv[0], argv[1:]...) // #nosec G204 -- from the table above
		cmd.Stdout, cmd.Stderr = &log, &log
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it has workers
		if err := cmd.Start(); err != nil {
			return err
		}
		go func() { // ends with the process, which is killed below
			_ = cmd.Wait() // how the process ended shows in its log
			close(exited)
		}()
		defer func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			<-exited
		}()
	}
	if err := c.visit("http://"+at+"/path?q", proxy, exited); err != nil {
		return fmt.Errorf("%w\n%s", err, log.String())
	}
	return nil
}

// settings returns the arguments of the rlproxy that the gateway asks on a port.
func (c *crossing) settings(dir string, files map[string]string, port int) ([]string, error) {
	if c.name == "Envoy" {
		return envoySettings(dir, files, port)
	}
	return []string{"--http-port", strconv.Itoa(port), "--http-check", "yes",
		"--policy", "api", "SLIDE", strconv.Itoa(gatewayLimit), "1h"}, nil
}

// visit makes the requests of a trial.
func (c *crossing) visit(url string, proxy *server, exited <-chan struct{}) error {
	quick := visitor{url: url, from: net.IPv4(127, 0, 0, 2)}
	for _, step := range []func() error{
		func() error { return quick.wait(exited, func(a answer) bool { return a.status == http.StatusOK }) },
		func() error { return c.someLimited(url) },
		proxy.freeze,
		func() error { return c.unlimited(quick, exited) },
		func() error { return proxy.cmd.Process.Signal(syscall.SIGCONT) },
		proxy.stop,
		func() error { return c.unlimited(quick, exited) },
		proxy.launch,
		func() error { return c.someLimited(url) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// unlimited requires that requests pass while rlproxy does not answer, or fail with Traefik.
func (c *crossing) unlimited(v visitor, exited <-chan struct{}) error {
	if c.gateway.run == nil {
		return v.wait(exited, func(a answer) bool { return a.status == http.StatusInternalServerError })
	}
	return v.wait(exited, func(a answer) bool { return a.status == http.StatusOK && !a.limited() })
}

// someLimited has visitors use their limits up, until one of them was not passed on because the machine was too busy
// for a gateway's 250 ms.
func (c *crossing) someLimited(url string) error {
	deadline := time.Now().Add(programTime)
	for i := byte(0); ; i++ {
		err := c.limited(url, net.IPv4(127, 0, byte(1+time.Now().UnixMilli()%200), 1+i%200))
		if err == nil || !errors.Is(err, errUnlimited) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond) // until a gateway that has taken rlproxy for away asks it again
	}
}

// limited has a visitor from an address use its limit up, with what a browser sends and what an attacker may add.
func (c *crossing) limited(url string, from net.IP) error {
	body := strings.Repeat("body ", 20_000)
	for left := gatewayLimit - 1; left >= -1; left-- {
		method, sent := http.MethodGet, ""
		if left == 1 {
			method, sent = http.MethodPost, body
		}
		r, err := http.NewRequest(method, url, strings.NewReader(sent))
		if err != nil {
			return err
		}
		r.Host = "shop.example"
		for name, value := range map[string]string{
			"Authorization": "Basic dmlzaXRvcjpob21l", "Cookie": "session=" + strings.Repeat("c", 4000),
			"Sec-Fetch-Site": "cross-site", "Origin": "https://elsewhere.example", "RateLimit": "mine", "Accept": "*/*",
			"X-Forwarded-For": fmt.Sprintf("192.0.2.%d, 198.51.100.%d", left+2, left+2), "Connection": "X-Forwarded-For, close",
		} {
			r.Header.Set(name, value)
		}
		if c.name == "Envoy" {
			r.Header.Set("Connection", "close") // it answers 400 to those that have it forget X-Forwarded-For
		}
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
		client := http.Client{Timeout: serverTime, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}}
		got, err := client.Do(r)
		if err != nil {
			return err
		}
		text, err := io.ReadAll(got.Body)
		if err := errors.Join(err, got.Body.Close()); err != nil {
			return err
		}
		if err := c.expect(answer{got.StatusCode, got.Header}, left); err != nil {
			return err
		}
		if want := fmt.Sprintf("%s /path?q Basic dmlzaXRvcjpob21l 4008 %d", method, len(sent)); left >= 0 && string(text) != want {
			return fmt.Errorf("the application saw %q, not %q", text, want)
		}
	}
	return nil
}

// expect checks the answer to a request that left so many; -1: that is denied.
func (c *crossing) expect(a answer, left int) error {
	told := c.gateway.run != nil || left < 0 // Traefik does not tell a visitor who is admitted
	switch {
	case told && !a.limited():
		return fmt.Errorf("status %d: %w", a.status, errUnlimited)
	case !told && a.status == http.StatusInternalServerError:
		return errUnlimited
	case c.name == "Envoy":
		return expectEnvoys(a, left)
	}
	status, item, wait := http.StatusOK, fmt.Sprintf(`"api";r=%d`, left), a.header.Get("Retry-After")
	if left < 0 {
		status, item = http.StatusTooManyRequests, `"api";r=0;t=`+wait
		if n, err := strconv.Atoi(wait); err != nil || n < 1 || n > 3601 {
			return fmt.Errorf("Retry-After is %q", wait)
		}
	}
	policy := fmt.Sprintf(`"api";q=%d;w=3600`, gatewayLimit)
	if a.status != status || told && (a.header.Get("RateLimit") != item || a.header.Get("RateLimit-Policy") != policy) {
		return fmt.Errorf("%d left: status %d, %v", left, a.status, a.header)
	}
	return nil
}

// application answers with what it got.
type application struct {
	address string
	port    int
	server  http.Server
}

func (a *application) listen() error {
	a.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return
		}
		_, _ = fmt.Fprint(w, r.Method, " ", r.RequestURI, " ", r.Header.Get("Authorization"), " ", len(r.Header.Get("Cookie")), " ", n)
	})
	err := serve(&a.server, &a.address)
	_, port, _ := strings.Cut(a.address, ":")
	a.port, _ = strconv.Atoi(port) // it is empty if there is an error
	return err
}

// serve serves on a free port until the server is closed.
func serve(s *http.Server, address *string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.ReadHeaderTimeout, *address = serverTime, l.Addr().String()
	go func() { _ = s.Serve(l) }() // until Close
	return nil
}

// gatewaysTable returns the section with the results of the gateways.
func gatewaysTable(tried []*crossing) string {
	var b strings.Builder
	b.WriteString("\n## Gateways\n\nThe recipes of [gateways.md](gateways.md), as they are written there: limits, a browser's headers, bodies, " +
		"made-up addresses,\nand an rlproxy that hangs, is away and comes back. envoyproxy/ratelimit is no gateway: rlproxy answers thousands of random " +
		"requests of\nEnvoy's protocol as it does, by configurations that were imported, except for what [gateways.md](gateways.md#envoy) says.\n\n| gateway | version | |\n|---|---|---|\n")
	for _, c := range tried {
		mark := "✓"
		if c.err != nil {
			mark = "✗"
		}
		said := c.release
		if c.name == "Traefik" {
			said = "its requests"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.name, said, mark)
	}
	return b.String()
}
