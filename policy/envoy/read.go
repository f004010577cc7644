package envoy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/policy"
)

// Bounds of files. What an alias stands for counts each time that it is used.
const (
	maxFile   = 4 << 20          // bytes of a file
	maxDepth  = policy.MaxValues // levels of nested descriptors
	maxVisits = 1 << 20          // entries of maps and lists in all files together
)

// day is the length of a day in ms.
const day = 24 * 3600 * 1000

// units has the lengths of envoyproxy/ratelimit's units in ms. Its month has 30 days and its year
// 365. Like windows of rlproxy, each begins at a multiple of its length since 1970.
var units = map[string]int64{
	"second": 1000, "minute": 60 * 1000, "hour": 3600 * 1000, "day": day, "week": 7 * day, "month": 30 * day,
	"year": 365 * day,
}

// fieldNames are the names of fields that some map of a configuration may have. envoyproxy/ratelimit ignores such a
// field in another map, and refuses a file with other names.
var fieldNames = []string{
	"domain", "descriptors", "key", "value", "rate_limit", "shadow_mode", "quota_mode", "share_threshold",
	"detailed_metric",
	"value_to_metric", "metadata", "unit", "unit_multiplier", "requests_per_unit", "unlimited", "name", "replaces",
}

// reader reads files into domains.
type reader struct {
	domains map[string]*domain     // by name
	ordered []*domain              // in the order of the files
	remark  func(Position, string) // adds a remark
	visits  int                    // entries of maps and lists so far
	name    string                 // name of the file that is being read
	inList  bool                   // a List of Kubernetes is being read
	before  int                    // lines of the file before the text that is being read
}

// file adds the domains of a file: one for each of its documents.
func (r *reader) file(s Input) error {
	r.name, r.before = s.Name, 0
	if len(s.Text) > maxFile {
		return fmt.Errorf("%s: the file has more than %d MiB", s.Name, maxFile>>20)
	}
	return r.documents(s.Text, r.document)
}

// documents calls read with the root of each document of a text. One at least must not be empty.
func (r *reader) documents(text []byte, read func(*yaml.Node) error) error {
	empty := true
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document yaml.Node
		switch err := d.Decode(&document); {
		case errors.Is(err, io.EOF) && empty:
			return fmt.Errorf("%s: the file is empty", r.name)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return r.damaged(err)
		}
		if n := document.Content[0]; n.ShortTag() != "!!null" {
			empty = false
			if err := read(n); err != nil {
				return err
			}
		}
	}
}

var lineOf = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)`)

// damaged converts the YAML library's error about a file to our form.
func (r *reader) damaged(err error) error {
	found := lineOf.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	line := found[1]
	if line == "" {
		line = "1" // the library leaves out the first line
	}
	n, _ := strconv.Atoi(line) // it is digits
	return fmt.Errorf("%s:%d: not YAML: %s", r.name, r.before+n, found[2])
}

func (r *reader) at(n *yaml.Node) Position { return Position{r.name, r.before + n.Line} }

// errorf returns an error that begins with the place of n.
func (r *reader) errorf(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%v: %s", r.at(n), fmt.Sprintf(format, args...))
}

func (r *reader) root(n *yaml.Node) error {
	var list *yaml.Node
	name := ""
	if _, err := r.decode(n, "the configuration", targets{"domain": &name, "descriptors": &list}); err != nil {
		return err
	}
	if name == "" {
		return r.errorf(n, "domain is missing")
	}
	d := r.domains[name]
	if d == nil {
		d = &domain{name: name}
		r.domains[name] = d
		r.ordered = append(r.ordered, d)
	}
	return r.descriptors(&d.level, list, 1)
}

// descriptors reads a list of descriptors into a level; list may be nil.
func (r *reader) descriptors(l *level, list *yaml.Node, depth int) error {
	items, err := r.items(list, "descriptors")
	if err != nil {
		return err
	}
	if len(items) > 0 && depth > maxDepth {
		return r.errorf(list, "descriptors must not be nested deeper than %d", maxDepth)
	}
	for _, item := range items {
		if err := r.descriptor(l, item, depth); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) descriptor(l *level, n *yaml.Node, depth int) error {
	d := &descriptor{Position: r.at(n), order: r.visits}
	var below, rate, metadata *yaml.Node
	var quota, share, detailed, byValue bool
	at, err := r.decode(n, "a descriptor", targets{
		"key": &d.key, "value": &d.value, "rate_limit": &rate, "descriptors": &below, "shadow_mode": &d.shadow,
		"quota_mode": &quota, "share_threshold": &share, "detailed_metric": &detailed, "value_to_metric": &byValue,
		"metadata": &metadata,
	})
	if err != nil {
		return err
	}
	const metrics = " is not carried over: metrics are by policy, and RL.HOTKEYS has the busiest keys"
	if detailed {
		r.remark(r.at(at["detailed_metric"]), "detailed_metric"+metrics)
	}
	if byValue {
		r.remark(r.at(at["value_to_metric"]), "value_to_metric"+metrics)
	}
	if metadata != nil {
		r.remark(r.at(at["metadata"]), "metadata is not carried over: replies have none")
	}
	if d.key == "" {
		return r.errorf(n, "a descriptor has no key")
	}
	if share && !strings.HasSuffix(cmp.Or(d.value, d.key), "*") {
		return r.errorf(at["share_threshold"], "share_threshold needs a value that ends in *")
	}
	if err := r.rateLimit(d, rate); err != nil {
		return err
	}
	if quota && d.limit != nil && *d.limit != unlimited && !d.shadow {
		d.shadow = true
		r.remark(r.at(at["quota_mode"]), "quota_mode becomes SHADOW for "+d.String()+": it counts and denies nothing, "+
			"but replies have no metadata that say when all quotas are used up")
	}
	if share {
		r.remark(r.at(at["share_threshold"]), "share_threshold is not carried over, nor are "+
			d.String()+" and what is below it: each value would have a count of its own; "+
			"what matches is treated as any other value")
	}
	if share || !r.matchable(d) {
		return r.descriptors(new(level), below, depth+1) // only to report its errors
	}
	if other := l.add(d); other != nil {
		return r.errorf(n, "the same key and value as at %v", other.Position)
	}
	return r.descriptors(&d.below, below, depth+1)
}

// leaveOut leaves out the limit of d, because of a field at n that makes it one that no policy can be. The requests
// that it was for are treated as if it did not exist. Descriptors below d are not affected.
func (r *reader) leaveOut(d *descriptor, n *yaml.Node, name, why string) {
	r.remark(r.at(n), name+" is not carried over, nor the limit of "+d.String()+": "+why)
	d.limit, d.leftOut = nil, true
}

// matchable prepares the value of d for comparisons. It reports whether d can be carried over.
func (r *reader) matchable(d *descriptor) bool {
	if strings.Contains(d.key, "*") {
		r.remark(d.Position, "a key with a * is not carried over, nor what is below it: "+word.Literal([]byte(d.key)))
		return false
	}
	prefix, rest, wildcard := strings.Cut(d.value, "*")
	if rest != "" {
		r.remark(d.Position, "a * inside a value is not carried over, nor what is below it: what matches "+
			word.Literal([]byte(d.value))+" is treated as any other value")
		return false
	}
	d.value, d.wildcard = prefix, wildcard
	return true
}

// rateLimit reads the rate_limit of d; n is nil if there is none.
func (r *reader) rateLimit(d *descriptor, n *yaml.Node) error {
	if n == nil || n.ShortTag() == "!!null" {
		return nil
	}
	var free bool
	var unit, name string
	var replaces *yaml.Node
	requests, multiplier := count{0, 0}, count{1, 1}
	at, err := r.decode(n, "rate_limit", targets{
		"unit": &unit, "unit_multiplier": &multiplier, "requests_per_unit": &requests, "unlimited": &free,
		"name": &name, "replaces": &replaces,
	})
	if err != nil {
		return err
	}
	multiple := at["unit_multiplier"]
	length, known := units[strings.ToLower(unit)]
	switch {
	case free && known:
		return r.errorf(n, "rate_limit is unlimited and has a unit")
	case free && multiple != nil:
		return r.errorf(n, "rate_limit is unlimited and has a unit_multiplier")
	case free:
		d.limit = &effect{verdict: engine.Unlimited}
	case !known:
		return r.errorf(n, "unit must be second, minute, hour, day, week, month or year, not %s",
			word.Literal([]byte(unit)))
	case requests.n == 0:
		d.limit = &effect{verdict: engine.Blocked}
	case multiplier.n > limit.MaxWindow/length:
		r.leaveOut(d, multiple, "unit_multiplier", fmt.Sprintf("a window has at most 366 days, and %d times a %s is "+
			"longer", multiplier.n, strings.ToLower(unit)))
	default:
		d.limit = &effect{window: limit.Window{Limit: requests.n, Length: length * multiplier.n}}
	}
	return r.replaces(name, replaces)
}

// replaces reads the list of the limits that the limit with this name replaces.
func (r *reader) replaces(name string, list *yaml.Node) error {
	items, err := r.items(list, "replaces")
	if err != nil {
		return err
	}
	for _, item := range items {
		other := ""
		if _, err := r.decode(item, "an entry of replaces", targets{"name": &other}); err != nil {
			return err
		}
		switch other {
		case "":
			return r.errorf(item, "an entry of replaces has no name")
		case name:
			return r.errorf(item, "a limit must not replace itself: %s", word.Literal([]byte(other)))
		}
		r.remark(r.at(item), "replaces is not carried over: this limit and the limit "+word.Literal([]byte(other))+
			" both apply, unless the client does not ask about the other")
	}
	return nil
}

// unknown returns an error about a field that a map should not have, because it may mean something: it may be
// misspelled, or newer than the importer. If another map may have it, unknown only adds a remark.
func (r *reader) unknown(f field) error {
	name := word.Literal([]byte(f.name))
	if slices.Contains(fieldNames, f.name) {
		r.remark(r.at(f.at), "the field "+name+" has no meaning here, in envoyproxy/ratelimit either")
		return nil
	}
	for _, known := range fieldNames {
		if strings.EqualFold(f.name, known) {
			return r.errorf(f.at, "unknown field %s; its name is %s", name, known)
		}
	}
	return r.errorf(f.at, "unknown field %s", name)
}
