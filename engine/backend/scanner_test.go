package backend

import (
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// Valid replies pass in fragments of any size.
func TestScannerRefusesRepliesThatAnnounceTooMuch(t *testing.T) {
	good := "+OK\r\n-ERR x\r\n:1\r\n$-1\r\n$0\r\n\r\n$5\r\na\nb\r\n\r\n*-1\r\n*0\r\n*2\r\n*1\r\n:1\r\n$1\r\nx\r\n_\r\n#t\r\n,1.5\r\n(12\r\n=5\r\ntxt:x\r\n" +
		"%1\r\n+a\r\n*2\r\n:1\r\n:2\r\n~1\r\n+a\r\n>2\r\n+message\r\n+x\r\n*1\r\n|1\r\n+k\r\n+v\r\n:1\r\n+" + strings.Repeat("long ", 100) + "\r\n"
	for _, limits := range []scanLimits{parsedLimits, passedLimits} {
		whole, pieces := scanner{limits: limits}, scanner{limits: limits}
		require.NoError(t, whole.feed([]byte(good)))
		require.Empty(t, whole.left)
		require.Zero(t, whole.skip)
		buf := make([]byte, 7)
		for r := iotest.OneByteReader(strings.NewReader(good)); ; {
			n, err := r.Read(buf)
			if err != nil {
				break
			}
			require.NoError(t, pieces.feed(buf[:n]))
		}
		require.Empty(t, pieces.left)
		require.Zero(t, pieces.skip)
	}
	for _, bad := range []string{
		"\r\n", "\n", "$x\r\n", "$-2\r\n", "*-7\r\n", "$\r\n", "*999999999999999999999\r\n", "*?\r\n", strings.Repeat("*1\r\n", 5000),
		"*1\r\n%4294967297\r\n", "$4294967297\r\n", "$" + strings.Repeat("0", 100) + "1\r\n",
	} {
		for _, limits := range []scanLimits{parsedLimits, passedLimits} {
			s := scanner{limits: limits}
			require.NoError(t, s.feed([]byte("+OK\r\n")))
			require.ErrorIs(t, s.feed([]byte(bad)), ErrMalformed, bad)
		}
	}
	for _, large := range []string{"*1000000\r\n", "$100000000\r\n", strings.Repeat("*1\r\n", 100)} {
		parsed, passed := scanner{limits: parsedLimits}, scanner{limits: passedLimits}
		require.ErrorIs(t, parsed.feed([]byte(large)), ErrMalformed)
		require.ErrorIs(t, passed.feed([]byte(large)), ErrMalformed, "the reply to the greeting is parsed")
		passed = scanner{limits: passedLimits}
		require.NoError(t, passed.feed([]byte("%1\r\n+proto\r\n:3\r\n"+large)))
	}
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte("*2\r\n$1\r\nx\r\n:1\r\n"), 3)
	f.Add([]byte("*1\r\n|1\r\n+k\r\n+v\r\n:1\r\n"), 5)
	f.Fuzz(func(t *testing.T, replies []byte, cut int) {
		whole, pieces := scanner{limits: parsedLimits}, scanner{limits: parsedLimits}
		cut = min(max(cut, 0), len(replies))
		one := whole.feed(replies)
		two := pieces.feed(replies[:cut])
		if two == nil {
			two = pieces.feed(replies[cut:])
		}
		require.Equal(t, one, two)
		require.LessOrEqual(t, len(whole.left), parsedLimits.depth+1)
		if one == nil {
			require.Equal(t, whole, pieces)
		}
	})
}
