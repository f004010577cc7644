package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page about migrating has the libraries that are tried, in the versions that are installed.
func TestThePageNamesTheLibraries(t *testing.T) {
	page, err := os.ReadFile("../../docs/migrating.md")
	require.NoError(t, err)
	for file, libraries := range map[string]string{
		"../../examples/python/requirements.txt": `(?m)^(?:limits|flask-limiter)==(\S+)$`,
		"migrating/package.json":                 `"(?:rate-limiter-flexible|express-rate-limit|rate-limit-redis)": "(\S+)"`,
		"migrating/go/go.mod":                    `redis_rate/v10 v(\S+)`,
		"migrating/pom.xml":                      `<artifactId>bucket4j_jdk17-core</artifactId>\s*<version>(\S+)</version>`,
	} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		found := regexp.MustCompile(libraries).FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, found, file)
		for _, version := range found {
			require.Contains(t, string(page), version[1], file)
		}
	}
}
