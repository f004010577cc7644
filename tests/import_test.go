package tests

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

// TestImportedPoliciesDecide imports configurations, starts a proxy with the resulting lines, and sends requests for
// descriptors as the comments in the lines say.
func TestImportedPoliciesDecide(t *testing.T) {
	t.Parallel()
	var remarks bytes.Buffer
	examples := "../policy/envoy/testdata/"
	cmd := exec.Command(proxytest.Binary, "import", examples+"store.yaml", examples+"letters.yaml", examples+"shared.yaml")
	cmd.Stderr = &remarks
	lines, err := cmd.Output()
	require.NoError(t, err, remarks.String())
	require.Empty(t, remarks.String())
	policies := write(t, "policies.conf", string(lines))
	for name, args := range map[string][]string{"embedded": nil, "nodes": backends(startNodes(t, 2)...)} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, append(args, "--include", policies)...)
			c := dial(t, p.addr)
			check := func(call string) string {
				replies, err := c.Exchange(words("RL.CHECK " + call))
				require.NoError(t, err)
				return strings.Trim(fmt.Sprint(replies[0]), "[]")
			}
			for _, example := range []struct {
				call string
				want string // the first of the five integers
			}{
				{"store.remote_address 203.0.113.5 COST 25", "1 25 0 0"},
				{"store.remote_address 203.0.113.6", "1 25 24 0"},
				{"store.remote_address 192.0.2.66", "0 0 0 1000 1000"},
				{"store.remote_address 192.0.2.10 COST 100000", "1 0 0 0 0"},
				{"store.remote_address 198.51.100.7", "1 2000 1999 0"},
				{"store.table orders COST 40", "1 40 0 0"},
				{"store.table invoices COST 8", "1 8 0 0"},
				{"store.table others COST 4000", "1 0 0 0 0"},
				{"store.health any COST 4000", "1 0 0 0 0"},
				{"letters.kind.recipient newsletter|a@example.com COST 3", "1 3 0 0"},
				{"letters.kind.recipient newsletter|a@example.com", "0 3 0"},
				{"letters.kind.recipient newsletter|b@example.com", "1 3 2 0"},
				{"letters.kind.recipient receipt|a@example.com COST 1000", "1 0 0 0 0"},
				{"letters.recipient a@example.com", "1 60 59 0"},
				{"letters.service.user ada|mail COST 100", "1 0 0 0 0"},
				{"letters.service.user.shadow grace|mail COST 100", "1 0 0 0 0"},
				{"letters.service.user.shadow ada|mail COST 12", "1 12 0 0"},
				{"letters.service.user.shadow ada|print", "1 12 11 0"},
				{"letters.attachment video/cat COST 20", "1 20 0 0"},
				{"letters.attachment video/draft/cat", "1 20 19 0"}, // the first wildcard wins
				{"letters.attachment text/html", "1 4294967295 4294967294 0"},
				{"letters.attachment.shadow text/html", "1 0 0 0 0"},
				{"letters.attachment.shadow text/plain COST 4294967294", "1 4294967295 1 0"},
				{"letters.attachment.shadow text/plain", "1 4294967295 0 0"},
			} {
				got := check(example.call)
				require.True(t, strings.HasPrefix(got+" ", example.want+" "), "%s: %s, not %s", example.call, got, example.want)
			}
			denied := strings.Fields(check("letters.attachment.shadow text/plain"))
			require.Equal(t, []string{"1", "4294967295", "0"}, denied[:3])
			require.NotEqual(t, "0", denied[3], "the shadow would have denied this")
			p.stop(t)
		})
	}
}

// TestImportedCommandsSetPolicies feeds the commands to redis-cli, as the help says.
func TestImportedCommandsSetPolicies(t *testing.T) {
	t.Parallel()
	p := startProxy(t)
	commands, err := exec.Command(proxytest.Binary, "import", "--format", "commands", "--algorithm", "slide", "../policy/envoy/testdata/letters.yaml").Output()
	require.NoError(t, err)
	cli := exec.Command("redis-cli", "-e", "-p", port(t, p.addr))
	cli.Stdin = bytes.NewReader(commands)
	out, err := cli.CombinedOutput()
	require.NoError(t, err, "%s", out)
	replies, err := dial(t, p.addr).Exchange(
		words("RL.CHECK letters.kind.recipient newsletter|a@example.com COST 3"),
		words("RL.CHECK letters.kind.recipient newsletter|a@example.com"),
		words("RL.CHECK letters.service.user.shadow ada|mail COST 12"),
		words("RL.CHECK letters.service.user ada|mail COST 1000000000"),
	)
	require.NoError(t, err)
	for i, want := range []string{"[1 3 0 0 ", "[0 3 0 ", "[1 12 0 0 ", "[1 0 0 0 0"} {
		require.True(t, strings.HasPrefix(fmt.Sprint(replies[i]), want), "%v", replies[i])
	}
	p.stop(t)
}
