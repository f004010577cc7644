package backend

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBackendURLsAreParsed(t *testing.T) {
	for _, row := range []struct {
		url   string
		kind  backendKind
		seeds string
		name  string
		user  string
		db    int
		tls   bool
	}{
		{"redis://10.0.0.1:7000", oneNode, "10.0.0.1:7000", "10.0.0.1:7000/0", "", 0, false},
		{"redis://Host", oneNode, "Host:6379", "host:6379/0", "", 0, false},
		{"redis://u:p%40@h:1/3", oneNode, "h:1", "h:1/3", "u", 3, false},
		{"redis://LOCALHOST:07000/00", oneNode, "LOCALHOST:07000", "127.0.0.1:7000/0", "", 0, false},
		{"redis://localhost", oneNode, "localhost:6379", "127.0.0.1:6379/0", "", 0, false},
		{"redis://Host.:7000", oneNode, "Host.:7000", "host:7000/0", "", 0, false},
		{"redis://[0:0::1]:7000", oneNode, "[0:0::1]:7000", "[::1]:7000/0", "", 0, false},
		{"redis://[::ffff:10.0.0.1]:7000", oneNode, "[::ffff:10.0.0.1]:7000", "10.0.0.1:7000/0", "", 0, false},
		{"redis+sentinel://a:1/localhost", sentinels, "a:1", "localhost/0", "", 0, false},
		{"rediss://[::1]:7000", oneNode, "[::1]:7000", "[::1]:7000/0", "", 0, true},
		{"redis+sentinel://u:p@a:1,b:2/Main/4", sentinels, "a:1 b:2", "main/4", "u", 4, false},
		{"rediss+sentinel://a:1,b:2,c/main", sentinels, "a:1 b:2 c:6379", "main/0", "", 0, true},
		{"redis+cluster://u:p@a:1,b:2", cluster, "a:1 b:2", "a:1/0", "u", 0, false},
		{"rediss+cluster://a:1?skip_verify=true", cluster, "a:1", "a:1/0", "", 0, true},
	} {
		b, err := parseBackend(row.url)
		require.NoError(t, err, row.url)
		require.Equal(t, row.kind, b.kind, row.url)
		require.Equal(t, row.seeds, strings.Join(b.seeds, " "), row.url)
		require.Equal(t, row.name, b.name(), row.url)
		require.Equal(t, row.user, b.options.Username, row.url)
		require.Equal(t, row.db, b.options.DB, row.url)
		require.Equal(t, row.tls, b.tls != nil, row.url)
	}
	b, err := parseBackend("redis+sentinel://u:p@a:1/main?sentinel_username=s&sentinel_password=t%26")
	require.NoError(t, err)
	require.Equal(t, [2]string{"s", "t&"}, b.askAs)
	require.Equal(t, "p", b.options.Password)
}

func TestErrorsAboutBackendURLsDoNotContainThePassword(t *testing.T) {
	for _, url := range []string{
		"", "redis", "http://h:1", "redis://", "redis://u:secret@h:port", "redis://u:secret@h:1,h:2",
		"redis+sentinel://u:secret@h:1", "redis+sentinel://u:secret@h:1/main/x", "redis+cluster://u:secret@h:1/1",
		"redis+cluster://u:secret@h:1,", "redis://u:secret@h:1/?no_such=1", "redis+cluster+sentinel://h",
		"redis://u:secret@h:99999", "redis://u:secret@h:0", "redis://u:secret@h:-1", "redis://u:secret@h:1/-1", "redis+sentinel://u:secret@h:1,h:65536/main",
		"redis+sentinel://u:secret@h:1/main/-1", "redis+cluster://u:secret@h:1,h:70000",
	} {
		err := CheckURL(url)
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "secret", url)
	}
	for _, urls := range [][]string{
		{}, {"redis://h:1", "redis://H:1/0"}, {"redis://127.0.0.1:1", "redis://localhost:01/0"}, {"redis+cluster://h:1", "redis://h:2"},
		{"redis+sentinel://h:1/main", "redis+sentinel://h:2/main"},
	} {
		_, err := Open(Config{Backends: urls})
		require.Error(t, err, urls)
	}
}
