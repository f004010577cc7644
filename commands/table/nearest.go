package table

import "strings"

// Nearest returns the command of rlproxy whose name takes the fewest changes of a byte to become the given one. Of
// several, it is the first. Of a long name only the first bytes count.
func Nearest(of Table, name string) *Command {
	const most = 32 // bytes, as the longest name of a command may have
	name = strings.ToLower(name[:min(len(name), most)])
	var nearest *Command
	least := 2*most + 1
	for _, c := range of.Commands() {
		if c.Ours() {
			if d := distance(c.Name, name); d < least {
				nearest, least = c, d
			}
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
