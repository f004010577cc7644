package metrics

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxKeys is the most series with a client's key.
	maxKeys = 50
	// minRate is the lowest rate of decisions per second at which a key has a series, so that
	// rarely used keys do not make series that soon end.
	minRate = 0.5
	// maxLabel is the most bytes of a text in a label.
	maxLabel = 100
)

var hotKeys = gauge("hot_key_decisions_per_second",
	"Decisions per second about the busiest keys, at most 50 of them.", "key")

func (c *Config) collectKeys(to chan<- prometheus.Metric) {
	shown := make(map[string]bool, maxKeys)
	for _, k := range c.Observer.HotKeys(maxKeys) {
		if k.Rate < minRate {
			break
		}
		if label := keyLabel(k.Key); !shown[label] { // two series with the same label would be an error
			shown[label] = true
			hotKeys.send(to, k.Rate, label)
		}
	}
}

// bounded returns a text as the value of a label, which must be UTF-8, cut off if it is long.
func bounded(text string) string {
	if len(text) > maxLabel {
		end := maxLabel
		for end > maxLabel-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// keyLabel returns a key as the value of a label. If it is cut or changed, the label ends with ~ and a hash of the key,
// so that labels of different keys differ.
func keyLabel(key []byte) string {
	label := bounded(string(key))
	if label == string(key) {
		return label
	}
	return label + "~" + strconv.FormatUint(xxhash.Sum64(key), 16)
}
