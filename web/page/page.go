// Package page is the web page that shows what an rlproxy does: page.html, one file that loads
// nothing from other servers and uses only the server's own /api.
package page

import (
	"crypto/sha256"
	_ "embed" // page.html
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

//go:embed page.html
var text []byte

// ContentSecurity returns the Content-Security-Policy of the page. It allows only the script and the
// style of page.html, by their hashes, which are computed at the first call. The script can
// connect only to this server, and cannot turn text into markup.
var ContentSecurity = sync.OnceValue(func() string {
	return strings.Join([]string{
		"default-src 'none'",
		"script-src " + inline("script"),
		"style-src " + inline("style"),
		"connect-src 'self'",
		"img-src data:", // for the icon
		"base-uri 'none'",
		"form-action 'none'",
		"frame-ancestors 'none'",
		"require-trusted-types-for 'script'",
		"trusted-types 'none'",
	}, "; ")
})

// inline returns the sources with which it allows the elements of page.html that have this name.
func inline(name string) string {
	var sources []string
	for _, m := range regexp.MustCompile(`(?s)<`+name+`>(.*?)</`+name+`>`).FindAllSubmatch(text, -1) {
		sum := sha256.Sum256(m[1])
		sources = append(sources, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	return strings.Join(sources, " ")
}

// Serve answers with the page and its Content-Security-Policy.
func Serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", ContentSecurity())
	_, _ = w.Write(text) // the client may be gone
}
