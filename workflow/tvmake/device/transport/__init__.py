"""Devices with a shell: ssh, adb, and what runs over either."""
