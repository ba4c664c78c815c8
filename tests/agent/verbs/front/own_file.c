int fake_number(void);
int fake_number(void) { return FAKE_NUMBER; }
