package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// profile loads a side once more and keeps a CPU profile of it, for go
// tool pprof. What the profile costs is in no row.
func profile(ctx context.Context, s *settings, side *side) error {
	file, err := os.Create(s.profile)
	if err != nil {
		return err
	}
	length := time.Duration(s.seconds) * time.Second
	fetched := make(chan error, 1)
	go func() { fetched <- fetchProfile(ctx, side.admin, length, file) }()
	_, err = side.generator.run(ctx, side.address, length)
	return errors.Join(err, <-fetched, file.Close())
}

func fetchProfile(ctx context.Context, admin string, length time.Duration, into io.Writer) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", admin, int(length.Seconds()))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the admin endpoint answers %s", response.Status)
	}
	_, err = io.Copy(into, response.Body)
	return err
}
