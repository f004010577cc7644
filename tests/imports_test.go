package tests

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowed lists the packages of the project that each package may import. A package without a
// line may import none of them.
var allowed = map[string][]string{
	"cmd/rlproxy": {
		"cmd/rlproxy/config", "commands", "commands/acl", "commands/config", "commands/info", "commands/slots", "commands/table", "commands/waiting", "engine", "engine/backend", "engine/calendar", "engine/decisionlog", "engine/decisionlog/why", "engine/forward", "engine/hotkeys", "engine/layout", "engine/memory",
		"engine/observe", "engine/redis", "engine/scan", "policy", "policy/envoy", "policy/store", "resp", "rls", "web", "web/metrics", "internal/keypair", "internal/lines", "internal/login", "internal/machine",
	},
	"cmd/rlproxy/config": {"commands/word", "engine", "engine/backend", "engine/layout", "engine/replicas", "engine/split", "policy", "internal/glob", "internal/keypair"},
	"commands": {
		"commands/acl", "commands/clients", "commands/config", "commands/hotkeys", "commands/info", "commands/keys", "commands/nodes", "commands/policies", "commands/ratelimit", "commands/reply", "commands/slots", "commands/stats", "commands/table", "commands/waiting", "commands/word",
		"engine", "engine/forward", "engine/observe", "policy", "resp", "internal/episodes", "internal/glob",
	},
	"commands/acl":       {"internal/glob"},
	"commands/config":    {"commands/reply", "commands/table", "commands/word", "internal/glob"},
	"commands/hotkeys":   {"commands/acl", "commands/reply", "commands/table", "commands/word", "engine/observe"},
	"commands/info":      {"commands/reply", "commands/table", "commands/word"},
	"commands/nodes":     {"commands/reply", "commands/table", "engine"},
	"commands/keys":      {"commands/acl", "commands/reply", "commands/table", "commands/word", "engine", "shard", "internal/glob"},
	"commands/policies":  {"commands/acl", "commands/ratelimit", "commands/reply", "commands/table", "commands/word", "engine", "engine/limit", "engine/observe", "policy"},
	"commands/ratelimit": {"commands/reply", "commands/table", "commands/word", "engine", "engine/limit", "resp", "shard"},
	"commands/slots":     {"commands/reply", "engine", "engine/limit", "internal/due"},
	"commands/waiting":   {"engine", "engine/limit", "internal/due"},
	"commands/stats":     {"commands/reply", "commands/table", "commands/word", "internal/histogram", "internal/named"},
	"commands/table":     {"commands/acl", "commands/reply", "commands/word", "resp", "internal/glob"},
	"commands/clients":   {"commands/reply", "commands/word", "resp"},
	"commands/reply":     {"commands/word", "resp"},
	"commands/word":      {"internal/redisline"},

	"engine":             {"engine/limit", "shard", "internal/glob", "internal/histogram"},
	"engine/observe":     {"engine", "engine/limit", "shard", "shard/topk", "internal/histogram", "internal/named"},
	"engine/limit":       nil,
	"engine/hold":        {"engine", "engine/limit", "internal/shrink"},
	"engine/multikey":    {"engine", "engine/hold", "engine/limit"},
	"engine/memory":      {"engine", "engine/hold", "engine/limit", "internal/shrink", "internal/episodes"},
	"engine/conformance": {"commands/ratelimit", "commands/table", "engine", "engine/conformance/model", "engine/limit", "shard"},
	"engine/decisionlog": {"engine", "engine/observe", "shard", "internal/lines", "internal/episodes"},
	"engine/backend":     {"engine", "shard", "internal/keypair", "internal/login", "internal/replyscan", "internal/sockio", "internal/episodes"},
	"engine/backlog":     nil,
	"engine/library":     {"engine/backend", "lua"},
	"engine/replicas":    {"engine/backend"},
	"engine/local":       {"engine", "engine/backend", "engine/limit", "engine/memory"},
	"engine/traffic":     {"engine", "engine/backend", "engine/wire", "internal/histogram"},
	"engine/denials":     {"engine", "engine/limit"},
	"engine/calendar":    {"engine", "engine/backend", "engine/limit"},
	"engine/resets":      {"engine/backend", "shard", "internal/episodes"},
	"engine/hotkeys":     {"engine", "engine/backend", "engine/observe", "engine/registry", "internal/episodes"},
	"engine/layout":      {"engine", "engine/backend", "engine/registry", "shard", "internal/episodes"},
	"engine/registry":    {"engine/backend"},
	"engine/scan":        {"engine", "engine/backend", "shard"},
	"engine/wire":        {"engine", "engine/advance", "engine/limit", "lua", "shard", "shard/lease"},
	"engine/split":       {"engine", "engine/backend", "engine/denials", "engine/limit", "engine/wire", "lua", "shard", "shard/lease", "internal/glob"},
	"engine/redis": {
		"engine", "engine/advance/purse", "engine/backend", "engine/backlog", "engine/denials", "engine/layout", "engine/library", "engine/limit", "engine/local",
		"engine/multikey", "engine/replicas", "engine/resets", "engine/split", "engine/traffic", "engine/wire", "lua", "shard", "internal/episodes",
	},
	"engine/forward": {
		"engine", "engine/backend", "engine/backlog", "engine/forward/keyspec", "engine/forward/replies", "lua", "internal/episodes", "internal/histogram", "internal/redisline", "internal/replyscan",
	},
	"engine/conformance/model": {"engine", "engine/limit"},
	"engine/decisionlog/why":   {"engine/decisionlog", "internal/glob", "internal/login"},

	"engine/forward/keyspec": nil,
	"engine/forward/replies": nil,

	"policy/store":         {"commands/word", "engine", "engine/backend", "engine/registry", "policy", "internal/machine", "internal/episodes"},
	"policy":               {"commands/ratelimit", "commands/reply", "commands/word", "engine", "engine/limit"},
	"policy/envoy":         {"commands/word", "engine", "engine/limit", "policy", "internal/login"},
	"shard":                nil,
	"shard/topk":           nil,
	"shard/lease":          nil,
	"shard/lease/model":    {"shard/lease"},
	"engine/advance":       {"engine/limit"},
	"engine/advance/purse": {"engine", "engine/advance", "engine/backend", "engine/registry", "engine/split", "engine/wire", "lua"},
	"engine/advance/model": {"engine/advance"},
	"lua":                  nil,
	"resp":                 {"internal/redisline", "internal/epoll", "internal/sockio", "internal/episodes"},
	"rls":                  {"commands/acl", "commands/policies", "commands/ratelimit", "engine", "engine/limit", "engine/observe", "policy", "policy/envoy", "internal/conns"},
	"web":                  {"commands/acl", "commands/policies", "commands/ratelimit", "commands/reply", "commands/word", "engine", "engine/decisionlog", "engine/limit", "engine/observe", "policy", "internal/conns", "internal/histogram", "shard", "web/metrics", "web/page"},
	"web/metrics":          {"engine", "engine/forward", "engine/limit", "engine/observe", "internal/histogram"},
	"web/page":             nil,
	"internal/redisline":   nil,
	"internal/machine":     nil,
	"internal/due":         nil,
	"internal/glob":        nil,
	"internal/episodes":    nil,
	"internal/histogram":   nil,
	"internal/lines":       nil,
	"internal/keypair":     nil,
	"internal/login":       nil,
	"internal/replyscan":   nil,
	"internal/conns":       nil,
	"internal/named":       nil,
	"internal/shrink":      nil,
	"internal/sockio":      nil,
	"internal/epoll":       nil,
	"internal/freeport":    nil,
	"internal/redistest":   {"internal/freeport"},
	"tests":                {"commands", "engine/backend", "engine/redis", "resp", "shard", "internal/faultnet", "internal/freeport", "tests/peers", "tests/proc", "tests/testbed", "tests/traffic"}, // of the walk, which runs them in one process
}

// inTests lists what the tests of a package may import in addition.
var inTests = map[string][]string{
	"tests":                {"engine", "engine/memory"}, // of accuracy, which sets their clocks
	"engine/multikey":      {"engine/memory"},
	"engine/redis":         {"engine/advance", "engine/calendar", "engine/memory", "shard/lease"},
	"engine/hotkeys":       {"shard"},
	"engine/advance/purse": {"engine/limit"},
	"policy/store":         {"shard"},
	"commands":             {"engine/backend", "engine/limit", "engine/memory", "engine/redis", "policy/store"},
	"commands/keys":        {"resp"},
	"commands/policies":    {"engine/backend", "engine/memory", "engine/redis", "resp", "shard"},
	"rls":                  {"commands", "engine/memory"},
	"commands/waiting":     {"engine/memory"},
	"web":                  {"commands"},
	"engine/decisionlog":   {"engine/limit", "internal/machine"},
	"lua":                  {"engine", "engine/advance", "engine/limit", "engine/wire", "shard", "shard/lease"}, // outside of its package, as wire imports it
}

// testSupport lists the packages that only tests may import.
var testSupport = []string{"internal/redistest", "internal/faultnet", "internal/proxytest", "internal/logged", "engine/conformance", "engine/conformance/model", "engine/advance/model", "shard/lease/model"}

// alone lists, by library, the only packages that may import it.
var alone = map[string][]string{
	"github.com/redis/go-redis": {"engine/backend", "engine/forward", "engine/redis", "engine/registry", "engine/replicas", "engine/resets", "policy/store"},
	"github.com/tidwall/redcon": {"resp"},
	"github.com/tinylib":        {"engine/wire"},
	"github.com/prometheus":     {"web/metrics"},
	"go.yaml.in/yaml":           {"policy/envoy"},
	"google.golang.org/grpc":    {"rls", "tests"}, // of the clients, which ask as Envoy does
	"github.com/envoyproxy":     {"rls", "tests"},
	"github.com/KimMachineGun":  {"cmd/rlproxy"},
}

// TestImports checks that packages import only what they may, except for tests that use a
// library as a client does.
func TestImports(t *testing.T) {
	t.Parallel()
	for _, p := range goPackages(t) {
		name := p.name()
		if strings.HasPrefix(name, "tests/") {
			name = "tests"
		}
		may, known := allowed[name]
		support := slices.Contains(testSupport, name)
		require.True(t, known || support, "%s: say in this test what it may import", name)
		for _, i := range p.Imports {
			if ours, ok := strings.CutPrefix(i, module); ok {
				require.Contains(t, may, ours, "%s must not import %s", name, ours)
			}
		}
		may = slices.Concat(may, inTests[name])
		for _, i := range slices.Concat(p.TestImports, p.XTestImports) {
			if ours, ok := strings.CutPrefix(i, module); ok && ours != name && !slices.Contains(testSupport, ours) {
				require.Contains(t, may, ours, "%s must not import %s", name, ours)
			}
		}
		for _, i := range p.Imports {
			if !support && name != "tests" {
				require.NotContains(t, testSupport, strings.TrimPrefix(i, module), "%s is not a test", name)
			}
			for library, owners := range alone {
				if strings.HasPrefix(i, library) && !support {
					require.Contains(t, owners, name, "only %s may import %s", owners, library)
				}
			}
		}
	}
}
