package machine

import (
	"fmt"
	"os"
	"path/filepath"
)

// CheckFolder returns an error if the folder of the file at path does not exist. The error
// begins with name, the directive that sets path. An empty path is not an error.
func CheckFolder(name, path string) error {
	if path == "" {
		return nil
	}
	folder := filepath.Dir(path)
	if st, err := os.Stat(folder); err != nil {
		return fmt.Errorf("%s: no folder for %s: %w", name, path, err)
	} else if !st.IsDir() {
		return fmt.Errorf("%s: no folder for %s: %s is a file", name, path, folder)
	}
	return nil
}
