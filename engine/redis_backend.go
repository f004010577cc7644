package engine

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// backend is one backend of the configuration: a node, or those who know which
// nodes there are.
type backend struct {
	kind    backendKind
	seeds   []string       // host:port: the node, the sentinels, or members of the cluster
	master  string         // of sentinels: the name of the master
	tls     *tlsTarget     // nil: no TLS
	options *redis.Options // of a node: user, password, database
	askAs   [2]string      // of sentinels: their own user and password
}

type backendKind uint8

const (
	oneNode backendKind = iota
	sentinels
	cluster
)

// backendKinds are the schemes of URLs. With an s after redis, they mean TLS.
var backendKinds = map[string]backendKind{
	"redis": oneNode, "redis+sentinel": sentinels, "redis+cluster": cluster,
}

// backendForms is what errors say is allowed.
const backendForms = "a backend is redis://[user:password@]host:port[/db], " +
	"redis+sentinel://[user:password@]host:port,host:port/master[/db] or " +
	"redis+cluster://[user:password@]host:port,host:port, each with rediss for TLS"

var errBackend = errors.New(backendForms)

// CheckBackend tells whether a backend's URL can be used. Errors do not repeat the
// URL, which may hold a password.
func CheckBackend(text string) error {
	_, err := parseBackend(text)
	return err
}

// parseBackend reads a backend's URL. Lists of hosts are not what net/url takes, so
// the URL is taken apart here, and put together again for each host.
func parseBackend(text string) (*backend, error) {
	scheme, rest, found := strings.Cut(text, "://")
	plain, isTLS := strings.CutPrefix(scheme, "rediss")
	if isTLS {
		scheme = "redis" + plain
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
	plain = "redis://"
	if isTLS {
		plain = "rediss://"
	}
	for _, seed := range strings.Split(authority, ",") {
		options, err := redis.ParseURL(plain + user + seed + "/" + path + query)
		if err != nil || seed == "" {
			return nil, errBackend // the cause may hold the password
		}
		b.seeds = append(b.seeds, options.Addr)
		b.options = options
	}
	if kind == oneNode && len(b.seeds) > 1 {
		return nil, errors.New("one node has one address: " + backendForms)
	}
	if t := b.options.TLSConfig; t != nil {
		b.tls = &tlsTarget{serverName: t.ServerName, skipVerify: t.InsecureSkipVerify}
		if len(b.seeds) > 1 || kind != oneNode {
			b.tls.serverName = "" // each node's own
		}
		b.options.TLSConfig = nil // the dialer of links does it
	}
	return b, nil
}

// takeSentinelUser takes sentinel_username and sentinel_password out of a query:
// sentinels have users of their own.
func (b *backend) takeSentinelUser(query string) string {
	values, err := url.ParseQuery(query)
	if err != nil {
		return query // the URL of the first host will not do either
	}
	b.askAs = [2]string{values.Get("sentinel_username"), values.Get("sentinel_password")}
	values.Del("sentinel_username")
	values.Del("sentinel_password")
	return values.Encode()
}

// name is the backend's name for placement.
func (b *backend) name() string {
	where := b.master
	if b.kind != sentinels {
		where = b.seeds[0]
	}
	return strings.ToLower(where) + "/" + strconv.Itoa(b.options.DB)
}

// parseBackends reads all URLs and holds that they go together.
func parseBackends(urls []string) ([]*backend, error) {
	if len(urls) == 0 {
		return nil, errors.New("no backend is named")
	}
	var all []*backend
	for _, text := range urls {
		b, err := parseBackend(text)
		if err != nil {
			return nil, err
		}
		if b.kind == cluster && len(urls) > 1 {
			return nil, errors.New("a cluster is the only backend: name its nodes in one URL")
		}
		for _, other := range all {
			if other.name() == b.name() {
				return nil, fmt.Errorf("backend %s is named twice", b.name())
			}
		}
		all = append(all, b)
	}
	return all, nil
}
