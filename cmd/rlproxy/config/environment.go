package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/commands/word"
)

// prefix begins the names of the variables of the environment that set directives.
const prefix = "RLPROXY_"

// Kubernetes gives every container of a namespace variables about its Services. About one that is called rlproxy, or
// rlproxy-http, their names begin with the prefix, too: RLPROXY_SERVICE_HOST, RLPROXY_PORT_6380_TCP_ADDR, and
// RLPROXY_PORT, which has an address and not a number. No directive has such a name or such a setting.
var (
	serviceName = regexp.MustCompile(`_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)
	servicePort = regexp.MustCompile(`_PORT=(tcp|udp|sctp)://`)
)

// readEnvironment reads name=value pairs. RLPROXY_FAIL_POLICY sets fail-policy, and each line of its value is
// what a line of a file has after the directive. Variables without the prefix and those of Kubernetes are ignored.
func (r *reader) readEnvironment(environ []string) error {
	r.cleared = make(map[string]bool)
	for _, variable := range slices.Sorted(slices.Values(environ)) { // so policies come before their overrides
		name, value, _ := strings.Cut(variable, "=")
		directive, ours := strings.CutPrefix(name, prefix)
		if !ours || serviceName.MatchString(name) || servicePort.MatchString(variable) {
			continue
		}
		directive = strings.ReplaceAll(directive, "_", "-")
		for line := range strings.SplitSeq(strings.TrimRight(value, "\n"), "\n") {
			words, err := word.SplitLine(line)
			if err == nil {
				err = r.apply("environment: "+name, ".", directive, words)
			} else {
				err = fmt.Errorf("environment: %s: %w", name, err)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
