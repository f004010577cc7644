package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// traefik does what Traefik's ForwardAuth does: a GET with those of the visitor's headers that the recipe names, and some
// of its own. What is not 2xx is the visitor's answer.
type traefik struct {
	address string
	server  http.Server
}

func newTraefik(files map[string]string, app string) (*traefik, error) {
	recipe := files["traefik.yml"]
	where := regexp.MustCompile(`address: (\S+)`).FindStringSubmatch(recipe)
	_, list, found := strings.Cut(recipe, "authRequestHeaders:\n")
	if where == nil || !found {
		return nil, errors.New("the recipe has no address or no headers")
	}
	next := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: app})
	client := http.Client{Timeout: time.Second}
	t := new(traefik)
	t.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ask, err := http.NewRequest(http.MethodGet, where[1], nil)
		if err != nil {
			panic(err)
		}
		for _, name := range regexp.MustCompile(`- (\S+)`).FindAllStringSubmatch(list, -1) {
			for _, value := range r.Header.Values(name[1]) {
				ask.Header.Add(name[1], value)
			}
		}
		from, _, _ := net.SplitHostPort(r.RemoteAddr) // it is a TCP address
		for name, value := range map[string]string{"For": from, "Method": r.Method, "Proto": "http", "Host": r.Host, "Uri": r.RequestURI} {
			ask.Header.Set("X-Forwarded-"+name, value)
		}
		said, err := client.Do(ask)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		defer func() { _ = said.Body.Close() }()
		if said.StatusCode/100 == 2 {
			next.ServeHTTP(w, r)
			return
		}
		for name, values := range said.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(said.StatusCode)
		_, _ = io.Copy(w, said.Body) // the visitor may be gone
	})
	return t, serve(&t.server, &t.address)
}
