// Package page is the web page that shows what an rlproxy does. Its sources are in src: page.html, page.css, and the
// files of the script in the order of scripts. They are joined into one page, which loads nothing from other servers
// and uses only the server's own /api.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"net/http"
	"strings"
)

//go:embed src
var src embed.FS

// scripts are the files of the script, in reading order. They share one scope.
var scripts = []string{
	"text", "elements", "stream", "figures", "problems", "keys", "policies", "nodes", "denials", "key", "start",
}

// text is the page, and policy its Content-Security-Policy. It allows only the page's script and style, by their
// hashes. The script can connect only to this server, and cannot turn text into markup.
var text, policy = assemble()

func assemble() (page []byte, policy string) {
	style := "\n" + read("page.css")
	script := "\n"
	for _, name := range scripts {
		script += read(name + ".js")
	}
	page = []byte(read("page.html"))
	page = bytes.Replace(page, []byte("<style></style>"), []byte("<style>"+style+"</style>"), 1)
	page = bytes.Replace(page, []byte("<script></script>"), []byte("<script>"+script+"</script>"), 1)
	return page, strings.Join([]string{
		"default-src 'none'",
		"script-src " + hash(script),
		"style-src " + hash(style),
		"connect-src 'self'",
		"img-src data:", // for the icon
		"base-uri 'none'",
		"form-action 'none'",
		"frame-ancestors 'none'",
		"require-trusted-types-for 'script'",
		"trusted-types 'none'",
	}, "; ")
}

func read(name string) string {
	b, err := src.ReadFile("src/" + name)
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(b)
}

// hash returns the source expression that allows an element with this text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Serve answers with the page and its Content-Security-Policy.
func Serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	_, _ = w.Write(text) // the client may be gone
}
