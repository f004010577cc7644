package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// central is the number of other packages that name a type from which on the glossary must have it.
const central = 5

// declared has the types and the exported names of each package: true for a type, false for anything else. A field or method
// has the name of its type before it.
type declared map[string]map[string]bool

// TestGlossaryMatchesTheCode compares the two tables of the glossary with the exported names of the packages that ship.
func TestGlossaryMatchesTheCode(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/architecture.md")
	require.NoError(t, err)
	_, glossary, _ := strings.Cut(string(text), "\n## Glossary\n")
	terms, shared, found := strings.Cut(glossary, "\n### Names that several packages have\n")
	require.True(t, found)
	names, uses := exportedNames(t)
	require.Empty(t, termFaults(terms, names, uses))
	require.Empty(t, sharedFaults(shared, names))
	require.Empty(t, meaningFaults(terms, shared, names))
}

// TestGlossaryFaultsAreFound checks each kind of fault.
func TestGlossaryFaultsAreFound(t *testing.T) {
	t.Parallel()
	names := declared{"a/one": {"T": true, "T.F": false}, "b/two": {"T": true, "New": false}, "c/two": {"U": true, "T": false}}
	uses := map[string]int{"a/one.T": central, "b/two.T": central - 1}
	terms := func(rows string) []string { return termFaults(rows, names, uses) }
	require.Empty(t, terms("| t | a thing | `one.T`, `b/two.New` |\n| f | a field | `one.T.F` |\n| u | no name | |"))
	require.Equal(t, []string{"one.T: used everywhere, and no term stands for it"}, terms("| u | x | `c/two.U` |"))
	require.Equal(t, []string{"t: there is no one.Gone"}, terms("| t | x | `one.T`, `one.Gone` |"))
	require.Equal(t, []string{"t: there is no two.T"}, terms("| t | x | `one.T`, `two.T` |"), "of which package?")
	require.Equal(t, []string{"t: has two rows"}, terms("| t | x | `one.T` |\n| t | y | |"))

	names["d/three"] = map[string]bool{"t": true}
	require.Equal(t, []string{"t: does three.t stand for it, too?"}, meaningFaults("| t | x | `one.T`, `b/two.T` |", "", names))
	require.Empty(t, meaningFaults("| t | x | `three.t` |", "\n| `T` | one, two | x |", names))
	delete(names, "d/three")

	shared := func(rows string) []string { return sharedFaults(rows, names) }
	undefended := []string{"T: declared in a/one and b/two, so rename one, or say what they have in common"}
	require.Empty(t, shared("| `T` | one, b/two | x |"))
	require.Empty(t, shared("| `T` | any | x |"))
	require.Equal(t, undefended, shared(""))
	require.Equal(t, undefended, shared("| `T` | one | x |"))
	require.Equal(t, []string{"T: not declared in c/two"}, shared("| `T` | one, b/two, c/two | x |"))
	require.Equal(t, []string{"U: one package at most has it"}, shared("| `T` | any | x |\n| `U` | any | x |"))
}

var (
	glossaryRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \|(.*)\|$`)
	inCode      = regexp.MustCompile("`([^`]+)`")
)

// termFaults returns what is wrong with the rows of a table of terms. uses has the number of other packages that name a
// type.
func termFaults(table string, names declared, uses map[string]int) (faults []string) {
	terms, has := map[string]bool{}, map[string]bool{}
	for _, row := range glossaryRow.FindAllStringSubmatch(table, -1) {
		if terms[row[1]] {
			faults = append(faults, row[1]+": has two rows")
		}
		terms[row[1]] = true
		for _, code := range inCode.FindAllStringSubmatch(row[3], -1) {
			of, name, _ := strings.Cut(code[1], ".")
			pkg := names.find(of)
			if _, ok := names[pkg][name]; !ok {
				faults = append(faults, row[1]+": there is no "+code[1])
			}
			has[pkg+"."+name] = true
		}
	}
	for name, n := range uses {
		if n >= central && !has[name] {
			faults = append(faults, filepath.Base(name)+": used everywhere, and no term stands for it")
		}
	}
	slices.Sort(faults)
	return faults
}

// sharedFaults returns what is wrong with the rows of a table of names that several packages have.
func sharedFaults(table string, names declared) (faults []string) {
	in := map[string][]string{}
	for pkg, all := range names {
		for name, isType := range all {
			if isType && ast.IsExported(name) {
				in[name] = append(in[name], pkg)
			}
		}
	}
	maps.DeleteFunc(in, func(_ string, packages []string) bool { return len(packages) == 1 })
	for _, row := range glossaryRow.FindAllStringSubmatch(table, -1) {
		name := strings.Trim(row[1], "`")
		if name == "name" || strings.HasPrefix(name, "-") {
			continue // the head of the table
		}
		if in[name] == nil {
			faults = append(faults, name+": one package at most has it")
		}
		if row[2] == "any" {
			delete(in, name)
		}
		for _, of := range strings.Split(row[2], ", ") {
			at := slices.Index(in[name], names.find(of))
			switch {
			case at >= 0:
				in[name] = slices.Delete(in[name], at, at+1)
			case row[2] != "any":
				faults = append(faults, name+": not declared in "+of)
			}
		}
	}
	for name, packages := range in {
		if len(packages) == 0 {
			continue
		}
		packages = nil
		for pkg, all := range names {
			if all[name] {
				packages = append(packages, pkg)
			}
		}
		slices.Sort(packages)
		faults = append(faults, name+": declared in "+strings.Join(packages, " and ")+", so rename one, or say what they have in common")
	}
	slices.Sort(faults)
	return faults
}

// meaningFaults returns the types that are named as a term is, and are neither in its row nor, because several packages
// have a type of that name, in the table of shared names.
func meaningFaults(terms, shared string, names declared) (faults []string) {
	for _, row := range glossaryRow.FindAllStringSubmatch(terms, -1) {
		if row[1] == "word" {
			continue // the head of the table
		}
		has := map[string]bool{}
		for _, code := range inCode.FindAllStringSubmatch(row[3], -1) {
			of, name, _ := strings.Cut(code[1], ".")
			has[names.find(of)+"."+name] = true
		}
		for pkg, all := range names {
			for name, isType := range all {
				if isType && strings.EqualFold(name, row[1]) && !has[pkg+"."+name] && !strings.Contains(shared, "\n| `"+name+"` |") {
					faults = append(faults, row[1]+": does "+filepath.Base(pkg)+"."+name+" stand for it, too?")
				}
			}
		}
	}
	slices.Sort(faults)
	return faults
}

// find returns the package whose path is or ends with of, or "" if there is not exactly one.
func (d declared) find(of string) (found string) {
	for pkg := range d {
		switch {
		case pkg == of:
			return pkg
		case strings.HasSuffix(pkg, "/"+of) && found != "":
			return ""
		case strings.HasSuffix(pkg, "/"+of):
			found = pkg
		}
	}
	return found
}

// exportedNames returns what the packages that ship declare, and for each type how many other packages name it.
func exportedNames(t *testing.T) (names declared, uses map[string]int) {
	t.Helper()
	names, uses = declared{}, map[string]int{}
	for _, p := range goPackages(t) {
		if !p.ships() {
			continue
		}
		names[p.name()] = map[string]bool{}
		used := map[string]bool{}
		for _, f := range p.GoFiles {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, f), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			declare(names[p.name()], file)
			imports := map[string]string{} // from names in the file to packages
			for _, i := range file.Imports {
				from := strings.Trim(i.Path.Value, `"`)
				name := filepath.Base(from)
				if i.Name != nil {
					name = i.Name.Name
				}
				imports[name] = strings.TrimPrefix(from, module)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && imports[x.Name] != "" {
						used[imports[x.Name]+"."+s.Sel.Name] = true
					}
				}
				return true
			})
		}
		for name := range used {
			uses[name]++
		}
	}
	maps.DeleteFunc(uses, func(name string, _ int) bool {
		dot := strings.LastIndex(name, ".")
		return !names[name[:dot]][name[dot+1:]]
	})
	require.Greater(t, len(uses), 50)
	return names, uses
}

// declare adds what a file declares.
func declare(names map[string]bool, file *ast.File) {
	add := func(prefix string, of ...*ast.Ident) {
		for _, name := range of {
			if name.IsExported() {
				names[prefix+name.Name] = false
			}
		}
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			prefix := ""
			if f.Recv != nil {
				ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
					if name, ok := n.(*ast.Ident); ok && prefix == "" {
						prefix = name.Name + "."
					}
					return true
				})
			}
			add(prefix, f.Name)
			continue
		}
		for _, s := range d.(*ast.GenDecl).Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				add("", s.Names...)
			case *ast.TypeSpec:
				names[s.Name.Name] = true
				if fields, ok := s.Type.(*ast.StructType); ok {
					for _, f := range fields.Fields.List {
						add(s.Name.Name+".", f.Names...)
					}
				}
			}
		}
	}
}
