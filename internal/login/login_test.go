package login

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPasswordIsReadAnew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	l := Login{User: "u", PasswordFile: file}
	_, _, err := l.Read()
	require.ErrorContains(t, err, "can't read a password: open "+file)
	for text, want := range map[string]string{"one": "one", "two\n": "two", "three words \r\n\n": "three words ", "": "", "\n": "", strings.Repeat("x", maxPassword+1): ""} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		user, password, err := l.Read()
		require.Equal(t, want, password)
		if want == "" {
			require.EqualError(t, err, "can't read a password: "+file+" must have 1 to 65536 bytes")
		} else {
			require.NoError(t, err)
			require.Equal(t, "u", user)
		}
	}
}

func TestAUserHasOnePassword(t *testing.T) {
	for l, want := range map[Login]bool{
		{}: false, {Password: "p"}: false, {PasswordFile: "f"}: false, {User: "u", Password: "p"}: false,
		{User: "u"}: true, {Password: "p", PasswordFile: "f"}: true,
	} {
		require.Equal(t, want, l.Conflicts(), "%+v", l)
	}
}

func TestHideTakesOutPasswords(t *testing.T) {
	for name, shown := range map[string]string{
		"https://u:p@h/a?b=c": "https://u:xxxxx@h/a?b=c", "http://h/a": "http://h/a", "a b:c@d/%zz": "a b:c@d/%zz", "-": "-", "file:/u:p@h": "file:/u:p@h",
	} {
		require.Equal(t, shown, Hide(name))
	}
}
