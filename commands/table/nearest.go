package table

import (
	"slices"
	"strings"
)

// Nearest returns the command of rlproxy whose name takes the fewest changes of a byte to become the given one. Of
// several, it is the first. Of a long name only the first bytes count.
func Nearest(of Table, name string) *Command {
	var names []string
	for _, c := range of.Commands() {
		if c.Ours() {
			names = append(names, c.Name)
		}
	}
	nearest := NearestWord(names, name)
	all := of.Commands()
	return all[slices.IndexFunc(all, func(c *Command) bool { return c.Name == nearest })]
}

// NearestWord returns the word that takes the fewest changes of a byte to become the given one, in any case. Of
// several, it is the first. Of a long word only the first bytes count.
func NearestWord(of []string, word string) (nearest string) {
	const most = 32 // bytes, as the longest of these words may have
	word = strings.ToLower(word[:min(len(word), most)])
	least := 2*most + 1
	for _, w := range of {
		if d := distance(strings.ToLower(w), word); d < least {
			nearest, least = w, d
		}
	}
	return nearest
}

// distance returns how many bytes must be changed, added or removed to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1) // of the first i bytes of a to the first j of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
