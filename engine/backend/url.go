package backend

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// backend is one backend of the configuration: a node, sentinels or a cluster.
type backend struct {
	kind    backendKind
	seeds   []string       // host:port of the node, of the sentinels, or of members of the cluster
	master  string         // the master's name at the sentinels; else empty
	tls     *tlsTarget     // nil: no TLS
	options *redis.Options // user, password and database for nodes
	askAs   [2]string      // user and password for the sentinels themselves
	suffix  string         // of nodes' names: /db if another backend is a database of the same server; else empty
}

type backendKind uint8

const (
	oneNode backendKind = iota
	sentinels
	cluster
)

// backendKinds maps the schemes of URLs without TLS. With TLS, rediss replaces redis.
var backendKinds = map[string]backendKind{
	"redis": oneNode, "redis+sentinel": sentinels, "redis+cluster": cluster,
}

// backendForms ends error messages about URLs.
const backendForms = "a backend is redis://[user:password@]host:port[/db], " +
	"redis+sentinel://[user:password@]host:port,host:port/master[/db] or " +
	"redis+cluster://[user:password@]host:port,host:port, with rediss in place of redis for TLS"

var errBackend = errors.New(backendForms)

// CheckURL returns an error if a backend's URL is not valid. Errors do not repeat the URL,
// which may contain a password.
func CheckURL(text string) error {
	_, err := parseBackend(text)
	return err
}

// parseBackend parses a backend's URL. net/url does not support lists of hosts, so
// parseBackend splits the URL and builds one URL per host.
func parseBackend(text string) (*backend, error) {
	scheme, rest, found := strings.Cut(text, "://")
	variant, isTLS := strings.CutPrefix(scheme, "rediss")
	if isTLS {
		scheme = "redis" + variant
	}
	kind, known := backendKinds[scheme]
	if !found || !known {
		return nil, errBackend
	}
	b := &backend{kind: kind}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	user := ""
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		user, authority = authority[:at+1], authority[at+1:]
	}
	if kind == sentinels {
		if b.master, path, _ = strings.Cut(path, "/"); b.master == "" {
			return nil, errBackend
		}
		query = b.takeSentinelUser(query)
	}
	if kind == cluster && path != "" {
		return nil, errors.New("a cluster has no databases: " + backendForms)
	}
	if query != "" {
		query = "?" + query
	}
	prefix := "redis://"
	if isTLS {
		prefix = "rediss://"
	}
	for _, seed := range strings.Split(authority, ",") {
		options, err := redis.ParseURL(prefix + user + seed + "/" + path + query)
		if err != nil || seed == "" {
			return nil, errBackend // err may contain the password
		}
		if !validPlace(options) {
			return nil, errors.New("a port must be from 1 to 65535, and a database at least 0: " + backendForms)
		}
		b.seeds = append(b.seeds, options.Addr)
		b.options = options
	}
	if kind == oneNode && len(b.seeds) > 1 {
		return nil, errors.New("a redis:// backend has only one address: " + backendForms)
	}
	if t := b.options.TLSConfig; t != nil {
		b.tls = &tlsTarget{serverName: t.ServerName, skipVerify: t.InsecureSkipVerify}
		if len(b.seeds) > 1 || kind != oneNode {
			b.tls.serverName = "" // each node has its own
		}
		b.options.TLSConfig = nil // Connections.dialer does TLS
	}
	return b, nil
}

// validPlace reports whether the port and the database are within their ranges.
func validPlace(o *redis.Options) bool {
	_, text, _ := net.SplitHostPort(o.Addr)
	port, err := strconv.Atoi(text)
	return err == nil && 1 <= port && port <= 65535 && o.DB >= 0
}

// takeSentinelUser stores sentinel_username and sentinel_password of a query in b, and returns
// the query without them. Sentinels have users of their own.
func (b *backend) takeSentinelUser(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return query // the caller fails to parse it too
	}
	b.askAs = [2]string{values.Get("sentinel_username"), values.Get("sentinel_password")}
	values.Del("sentinel_username")
	values.Del("sentinel_password")
	return values.Encode()
}

// name returns the backend's name for placement: master/db for sentinels, else host:port/db. Different spellings of one
// address have the same name, so that they place keys alike: the name is in lower case, with a port without leading
// zeros, an IP address in its shortest form, and 127.0.0.1 for localhost.
func (b *backend) name() string { return b.server() + "/" + strconv.Itoa(b.options.DB) }

// server returns the backend's name without the database.
func (b *backend) server() string {
	if b.kind == sentinels {
		return strings.ToLower(b.master)
	}
	return strings.ToLower(canonical(b.seeds[0]))
}

func canonical(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	} else if host = strings.TrimSuffix(strings.ToLower(host), "."); host == "localhost" {
		host = "127.0.0.1"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		port = strconv.FormatUint(n, 10)
	}
	return net.JoinHostPort(host, port)
}

// parseBackends parses all URLs and checks that they can be combined.
func parseBackends(urls []string) ([]*backend, error) {
	if len(urls) == 0 {
		return nil, errors.New("there is no backend")
	}
	var all []*backend
	for _, text := range urls {
		b, err := parseBackend(text)
		if err != nil {
			return nil, err
		}
		if b.kind == cluster && len(urls) > 1 {
			return nil, errors.New("a cluster must be the only backend: name its nodes in one URL")
		}
		for _, other := range all {
			if other.name() == b.name() {
				return nil, fmt.Errorf("backend %s is listed twice", b.name())
			}
			if other.server() == b.server() {
				other.suffix, b.suffix = "/"+strconv.Itoa(other.options.DB), "/"+strconv.Itoa(b.options.DB)
			}
		}
		all = append(all, b)
	}
	return all, nil
}
