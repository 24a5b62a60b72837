package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
)

const (
	// ratesFile is the one file of a release that counts: the value of a
	// euro in everything. All others are quotients of it.
	ratesFile = "package/v1/currencies/eur.min.json"
	// maxRatesFile bounds it; the largest seen has 13 KB.
	maxRatesFile = 1 << 20
)

// release is a dated release as the registry lists it.
type release struct {
	Version   string `json:"version"`
	Integrity string `json:"dist.integrity"`
	date      civil.Date
}

// tarball returns the file name that npm pack gives the release.
func (r release) tarball() string {
	return "fawazahmed0-currency-api-" + r.Version + ".tgz"
}

// readReleases reads the list, sorted by date.
func readReleases(path string) ([]release, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []release
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].date, err = dateOf(list[i].Version); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b release) int { return cmp.Compare(a.date, b.date) })
	return list, nil
}

// dateOf reads a version such as 2026.9.29 as the day it names.
func dateOf(version string) (civil.Date, error) {
	day, err := time.Parse("2006.1.2", version)
	if err != nil {
		return 0, fmt.Errorf("version %q is no date: %w", version, err)
	}
	return civil.Of(day), nil
}

// readTarballs makes the day of each listed release whose tarball is there.
func readTarballs(folder string, list []release) ([]day, error) {
	var days []day
	for _, r := range list {
		data, err := os.ReadFile(filepath.Join(folder, r.tarball()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // not chosen: the manifest names the day as missing
		}
		if err != nil {
			return nil, err
		}
		if err := verify(data, r.Integrity); err != nil {
			return nil, fmt.Errorf("%s: %w", r.tarball(), err)
		}
		content, err := extract(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.tarball(), err)
		}
		one, err := readDay(r, content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.tarball(), err)
		}
		days = append(days, one)
	}
	if len(days) == 0 {
		return nil, fmt.Errorf("no tarball of a listed release in %s", folder)
	}
	return days, nil
}

// verify checks a tarball against its Subresource Integrity string.
func verify(data []byte, integrity string) error {
	digest := sha512.Sum512(data)
	if got := integrityPrefix + base64.StdEncoding.EncodeToString(digest[:]); got != integrity {
		return fmt.Errorf("integrity is %s, want %s", got, integrity)
	}
	return nil
}

// extract takes the rates file out of a tarball.
func extract(data []byte) ([]byte, error) {
	compressed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	archive := tar.NewReader(compressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("no %s inside", ratesFile)
		}
		if err != nil {
			return nil, err
		}
		if header.Name != ratesFile {
			continue
		}
		if header.Size > maxRatesFile {
			return nil, fmt.Errorf("%s has %d bytes", ratesFile, header.Size)
		}
		return io.ReadAll(archive)
	}
}

func hexSum(data []byte) string {
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:])
}
