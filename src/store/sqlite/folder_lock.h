// One writer a data folder. The lock is the kernel's, on an open file: it ends with the process, however it ends,
// and the file may stay behind without harm.
#pragma once

#include <filesystem>

namespace pawl::sqlite {

// Makes the folder, for its owner only, when it is missing.
void make_folder(const std::filesystem::path& folder);

// Which files the folder has is on the disk when this returns.
void sync_folder(const std::filesystem::path& folder);

class FolderLock {
 public:
  // Throws StoreFailure, naming the process, when another one holds it.
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int file_ = -1;
};

}  // namespace pawl::sqlite
